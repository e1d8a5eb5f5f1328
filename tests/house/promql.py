"""Which series and labels a PromQL expression asks for.

A tokenizer for the part of the language that dashboards and rules use. Anything that it does not know is an error: a
checker that skips what it cannot read would pass a misspelt query.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<duration>\[[^\]]*\])
    | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:[smhdwy])?)
    | (?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<symbol>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},])
    )""",
    re.VERBOSE,
)

GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
OPERATORS = {"and", "or", "unless", "bool", "offset"}
AGGREGATIONS = {"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile"}
FUNCTIONS = {"rate", "irate", "increase", "delta", "histogram_quantile", "absent", "changes", "max_over_time", "time"}


@dataclass(frozen=True, slots=True)
class Selector:
    """One series name and the labels that its matchers name."""

    metric: str
    labels: frozenset[str]


def tokens(expression: str) -> list[tuple[str, str]]:
    """Kind and text of each token; ValueError where the text is none."""
    found, position = [], 0
    text = expression.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            message = f"not PromQL as known here, at {text[position:][:40]!r}"
            raise ValueError(message)
        found.append((match.lastgroup or "", match[match.lastgroup or 0]))
        position = match.end()
    return found


def parenthesised(stream: list[tuple[str, str]], start: int, close: str) -> list[tuple[str, str]]:
    """The tokens after the one at `start`, up to the closing symbol; neither matchers nor label lists nest."""
    end = next((index for index in range(start, len(stream)) if stream[index][1] == close), None)
    if end is None:
        message = f"no {close!r} after {stream[start][1]!r}"
        raise ValueError(message)
    return stream[start + 1 : end]


def selectors(expression: str) -> Iterator[Selector]:
    """Every series named, with the labels of its matchers."""
    stream = [*tokens(expression), ("end", "")]
    index = 0
    while index < len(stream) - 1:
        (kind, word), (_, following) = stream[index], stream[index + 1]
        index += 1
        if kind != "word" or word in OPERATORS or word in AGGREGATIONS:
            continue
        if word in GROUPING:
            index += len(parenthesised(stream, index, ")")) + 1 if following == "(" else 0
        elif following == "(":
            if word not in FUNCTIONS:
                message = f"unknown function {word!r}"
                raise ValueError(message)
        else:
            matchers = parenthesised(stream, index, "}") if following == "{" else []
            yield Selector(word, frozenset(name for kind, name in matchers if kind == "word"))
            index += len(matchers) + 1 if following == "{" else 0


def grouping_labels(expression: str) -> frozenset[str]:
    """The labels after by, on and their kind."""
    stream = tokens(expression)
    lists = [parenthesised(stream, index + 1, ")") for index, (_, word) in enumerate(stream) if word in GROUPING]
    return frozenset(name for names in lists for kind, name in names if kind == "word")


def unknown_names(expression: str, exported: dict[str, set[str]], everywhere: frozenset[str]) -> list[str]:
    """What the expression asks for and `exported` (sample name to label names) does not have.

    `everywhere` are labels that the scrape itself adds. A grouping label must be on every series of the expression.
    """
    problems = []
    for selector in selectors(expression):
        if selector.metric not in exported:
            problems.append(f"no series {selector.metric}")
            continue
        missing = (selector.labels | grouping_labels(expression)) - exported[selector.metric] - everywhere
        problems += [f"{selector.metric} has no label {label}" for label in sorted(missing)]
    return problems
