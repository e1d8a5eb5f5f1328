"""Fifty short prompts that nobody has trained on: original, written for the measurements on the small real engines.

The EAGLE-3 head in `bench/models` learned from other texts, so what it guesses here it has not seen. Short, because a
model of 135 million parameters forgets what a long prompt asked, and English, because that is nearly all it speaks.
The kinds alternate: any first part of the list is mixed like the whole.
"""

from collections.abc import Iterator

SHORT_QA = (
    "Why does a spoon look bent in a glass of water?",
    "How does salt keep ice from forming on a road?",
    "What is the job of a keel on a sailing boat?",
    "Why do cats purr?",
    "What makes the holes in Swiss cheese?",
    "How can a tree be older than any animal?",
    "What is the difference between a comet and an asteroid?",
    "Why do ears pop in a lift that goes up fast?",
    "What does a conductor of an orchestra actually do?",
    "How do bees find their way back to the hive?",
)

CODE = (
    "Write a Python function that returns the second largest number in a list.",
    "Write a Python function that counts the vowels in a string and returns a dictionary.",
    "Write a JavaScript function that reverses the words of a sentence but not their letters.",
    "Write a SQL query that finds all books that have never been borrowed.",
    "Write a shell command that lists the five largest files below the current directory.",
    "Explain what this Python code prints: print([n for n in range(20) if n % 3 == 1])",
    "Find the mistake in this code: def area(width, height): return width + height",
    "Write a Python class for a stack with push, pop and a method that tells whether it is empty.",
    "Write a C function that computes the greatest common divisor of two integers.",
    "Write a Python program that reads a number and says whether it is prime.",
)

STRUCTURED = (
    "Describe a train ticket as JSON with the keys from, to, date, price and seat.",
    "Give a YAML list of three houseplants with the light and the water that each needs.",
    "Write a CSV table with a header and four rows about the tools in a garden shed.",
    "Turn this into JSON: Lamp, brass, 40 watts, two in stock, 19 euros each.",
    "Write an HTML list of the steps to wash a woollen jumper.",
    "Make a Markdown table that compares walking, cycling and driving to work.",
    "Give a JSON array of five words for weather, each with its meaning.",
    "Write a numbered list of seven things to pack for a night in a tent.",
    "Write the opening hours of a small museum as YAML, one line for each weekday.",
    "Turn this into a bulleted list: we need flour, then eggs, and also milk and a lemon.",
)

WRITING = (
    "Write a short story about a bridge that remembers everybody who crossed it.",
    "Write a poem of six lines about the first snow in a harbour.",
    "Write a letter in which a lost umbrella asks its owner to come back.",
    "Describe the smell of a bakery at four in the morning.",
    "Write the beginning of a mystery that takes place in a greenhouse.",
    "Write a dialogue between a river and the mill that it drives.",
    "Write a speech for the retirement of a village postman.",
    "Invent a fairy tale in which the smallest bell rings the loudest.",
    "Write a review of a restaurant that serves only soup.",
    "Describe an old map to somebody who cannot see it.",
)

REWORKING = (
    "Summarise in one sentence: The ferry was late. Some took the slower bus; the rest waited and arrived first.",
    "Say this more politely: Your report is too long and nobody will read it.",
    "Rewrite in the past tense: She opens the shop, counts the coins and puts the kettle on.",
    "Explain to a child: Interest is the price that one pays for the use of borrowed money.",
    "Give a title to this text: Moss grows where grass does not, in the shade of walls. It needs hardly any light.",
    "Translate into French: The key is under the third flowerpot on the left.",
    "Translate into Spanish: We would like a table by the window, please.",
    "List the facts in this text: The tower was built of oak in the spring, is twelve metres high and has one door.",
    "Continue this sentence: When the last guest had left, the waiter sat down and",
    "Correct the spelling: Yesterdey we recieved two letters and a beutiful parcel.",
)

KINDS = (
    ("short_qa", SHORT_QA),
    ("code", CODE),
    ("structured", STRUCTURED),
    ("writing", WRITING),
    ("reworking", REWORKING),
)


def held_out() -> Iterator[tuple[str, str, str]]:
    """Id, kind and text of each prompt, the kinds in turn."""
    for place, texts in enumerate(zip(*(texts for _, texts in KINDS), strict=True)):
        for (kind, _), text in zip(KINDS, texts, strict=True):
            yield f"{kind}-{place}", kind, text
