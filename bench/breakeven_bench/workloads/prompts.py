"""The texts of the mixed workload: original, written for this suite, of no real person or document.

Documents to summarise are put together from sentences, since their length matters to an engine and their plot does not.
"""

from collections.abc import Sequence


def _texts(joined: str) -> tuple[str, ...]:
    """The texts of one category, which a line of its own with a percent sign separates."""
    return tuple(text.strip() for text in joined.split("\n%\n"))


SHORT_QA = _texts("""
Why does bread dough rise more slowly in a cold kitchen? Answer in one or two sentences.
%
What is the difference between a queue and a stack? Answer in two sentences.
%
Which of the two melts first in the sun, a white candle or a black one, and why?
%
How many litres does a cube with an edge of half a metre hold?
%
Name one reason why bridges have expansion joints.
%
In what order do the colours of a rainbow appear, and which is on the outside?
%
겨울에 안경에 김이 서리는 이유를 한 문장으로 설명해 주세요.
%
What does the status code 429 tell an HTTP client to do?
""")

CODE = _texts("""
Write a Python function that merges overlapping intervals given as a list of pairs, with type hints and a docstring.
%
Write a Go function that reads a file line by line and counts how often each word occurs, ignoring case.
%
Write a Rust struct for a ring buffer of fixed capacity with push, pop and len, and two unit tests.
%
Write a TypeScript class that limits calls to ten a second and queues the rest; explain each field in a comment.
%
Refactor this so that it does not rescan the list, and say why it is faster:

def pairs(items, total):
    found = []
    for a in items:
        for b in items:
            if a + b == total and (b, a) not in found:
                found.append((a, b))
    return found
%
Write a SQL query that lists, for each month, the three products with the highest revenue.
The tables are orders(id, placed_on) and lines(order_id, product, quantity, price).
""")

CREATIVE = _texts("""
Write a short story about a lighthouse keeper who finds that the lamp answers questions, but only in the dark.
%
Write an essay on why people keep objects that no longer work. Use one example from a kitchen and one from a desk.
%
Write the first chapter of a novel that begins with a train stopping at a station that is on no map.
%
바다를 한 번도 본 적 없는 소년이 조개껍데기에서 소리를 듣는 짧은 이야기를 써 주세요.
%
Write a dialogue between two old clocks in a repair shop on the night before one of them is sold.
""")

TRANSLATION = _texts("""
Translate into Korean:

The workshop closes at six, but the gate stays open until the last bus has left. Please switch off the lights in the
corridor, leave the key in the green box, and write your name in the book.
%
Translate into Korean:

Our measurements show that the pump runs hotter in the afternoon. We do not know yet whether the bearing or the cooling
water is the cause, and we will report again on Thursday after the second test.
%
Translate into English:

이번 주말에는 비가 많이 올 예정이니 우산을 꼭 챙기시기 바랍니다. 행사는 실내로 옮겨 진행되며,
입장 시간은 오후 두 시로 변경되었습니다. 자세한 안내는 입구의 게시판에서 확인하실 수 있습니다.
%
Translate into English:

새로 들어온 기계는 조용하지만 전기를 더 많이 씁니다. 그래서 밤에는 두 대 중 한 대만 돌리고,
낮에는 주문이 밀릴 때만 두 대를 함께 사용하기로 했습니다.
%
Translate into Korean:

If the parcel does not arrive within five days, reply to this message with the number on your receipt. We will either
send the goods again or return the full amount, whichever you prefer.
""")

STRUCTURED = _texts("""
Describe a bicycle shop as JSON with the keys name, opening_hours (one entry for each weekday), services (list of name
and price) and contact. Answer with JSON only.
%
Extract the facts into JSON with the keys part, quantity, unit, due:

Please send forty metres of the thin blue cable and six boxes of clamps; the cable is needed by the third of May, the
clamps a week later.
%
Write a YAML configuration for a service with three environments (test, stage, live), each with replicas, memory limit
and log level. Answer with YAML only.
%
Give a JSON schema for a calendar entry with title, start, end, repeat rule and guests. Answer with JSON only.
%
Convert to YAML: title=Repair list; items=door (oil, urgent), tap (replace seal, soon), shelf (fix, whenever).
""")

_SUBJECTS = (
    "The committee for the old harbour",
    "The night shift of the bakery",
    "A survey among the gardeners",
    "The second report of the water board",
    "The school at the end of the valley",
    "The new timetable of the ferry",
)

_EVENTS = (
    "found that the costs had risen by a third since the spring, mostly because material was ordered too late",
    "agreed to keep the present plan until the end of the year and to review it with fresh figures afterwards",
    "was surprised by how many people had read the notice and came to ask about the details",
    "recorded fewer complaints than before, although the number of visitors had gone up in every month",
    "could not say whether the change in the weather or the repair of the roof had made the difference",
    "proposed to share the work between two smaller groups, each with its own key and its own budget",
    "noted that the oldest part of the building needs attention before the first frost",
)

_CONSEQUENCES = (
    "Several members asked for a written explanation and received one within a week.",
    "Nobody objected, but two of those present wanted their doubts to be put on record.",
    "The figures will be published together with the photographs that were taken in June.",
    "Until then the side entrance remains closed, and deliveries have to be announced a day ahead.",
    "It was pointed out that a similar attempt ten years ago had failed for want of a single spare part.",
    "A small fund has been set aside for this purpose, which may also pay for the travel of volunteers.",
    "The next meeting will look at three offers and choose the one that is easiest to maintain.",
)


def summarisation(words: int, variant: int) -> str:
    """A request to summarise a document of at least `words` words; the variant shifts which sentence follows which."""
    sentences: list[str] = []
    length = 0
    step = 0
    while length < words:
        sentence = _sentence(variant, step)
        sentences.append(sentence)
        length += len(sentence.split())
        step += 1
    return "Summarise the following report in one paragraph:\n\n" + " ".join(sentences)


def _sentence(variant: int, step: int) -> str:
    # Steps that share no factor with the lengths of the lists, so that whole passages do not repeat.
    subject = _pick(_SUBJECTS, variant + step + step // len(_SUBJECTS))
    event = _pick(_EVENTS, 2 * variant + 3 * step)
    consequence = _pick(_CONSEQUENCES, 3 * variant + 2 * step + step // len(_CONSEQUENCES))
    return f"In part {step + 1}, {subject[0].lower()}{subject[1:]} {event}. {consequence}"


def _pick(sentences: Sequence[str], index: int) -> str:
    return sentences[index % len(sentences)]


SUMMARISATION = tuple(summarisation(words, variant) for variant, words in enumerate((500, 600, 700, 800, 900, 1000)))
