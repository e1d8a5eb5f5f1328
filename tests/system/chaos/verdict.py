"""Judges a run: what the clients got, against what the engines wrote down, the router logged, and the plan explains.

Pure: everything comes in as values. `judge` answers with a `Verdict`; its `faults` are empty where all is well.
"""

from collections import Counter
from dataclasses import dataclass, field

from tests.system.chaos.fates import Fate
from tests.system.chaos.plan import Harm, Outage

DIED = "a started answer whose engine died"
SILENT = "a started answer whose engine fell silent"
TIMED_OUT = "a first-byte time-out within the ejection bound"
SUSPECT = "two engines that died with it: it goes to no third"
NOBODY = "a moment without an eligible healthy backend"

NOTICED_S = 1.5
"""How long after a signal its effect may still reach a client: the machine may be busy."""

RANKED_MAX = 3
"""Backends that the router tries for one request (the policies' ranking)."""

LOST_MAX = 2
"""Engines that may be lost with one request before it is suspected of being the cause."""

UNSENT_MAX = 1
"""Events that the journal may hold and nobody got: the journal is written first, and death may fall in between."""

GONE = (Harm.KILL, Harm.RESTART)
STILL = (Harm.FREEZE, Harm.HICCUP)


@dataclass(frozen=True, slots=True)
class Limits:
    """The router's settings that the explanations follow from.

    `taken_out_s`: from the moment in which an engine stops until the router knows; `brought_back_s`: and from the one
    in which it serves again.
    """

    first_byte_s: float
    idle_s: float
    taken_out_s: float
    brought_back_s: float


@dataclass(slots=True)
class Journal:
    """What the engines wrote down about one token: by (engine, life) the bodies' digests, and how much was said."""

    asked: Counter = field(default_factory=Counter)
    digests: set[str] = field(default_factory=set)
    said: Counter = field(default_factory=Counter)
    ended: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Evidence:
    """`logged`: the access log's lines by request id; `engines`: of which (only the plain ones, all)."""

    fates: list[Fate]
    journals: dict[str, Journal]
    outages: list[Outage]
    logged: dict[str, list[dict]]
    plain: frozenset[str]
    engines: frozenset[str]


@dataclass(slots=True)
class Verdict:
    """`faults` name the request; `explained` counts failures by their reason."""

    faults: list[str] = field(default_factory=list)
    explained: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    kinds: Counter = field(default_factory=Counter)


def read_journals(pages: dict[str, str]) -> dict[str, Journal]:
    """By token, out of the files of all engines."""
    journals: dict[str, Journal] = {}
    for engine, page in pages.items():
        for line in page.splitlines():
            what, token, life, *rest = line.split(" ")
            journal = journals.setdefault(token, Journal())
            where = (engine, int(life))
            if what == "asked":
                journal.asked[where] += 1
                journal.digests.add(rest[0])
            elif what == "said":
                journal.said[where] = int(rest[0]) + 1
            else:
                journal.ended.add(where)
    return journals


def judge(evidence: Evidence, limits: Limits) -> Verdict:
    """Every rule over every request."""
    verdict = Verdict()
    seen = Counter(fate.wish.token for fate in evidence.fates)
    verdict.faults += [f"{token}: asked for {count} times" for token, count in seen.items() if count > 1]
    strangers = set(evidence.logged) - set(seen)
    verdict.faults += [f"{token}: logged, but nobody asked" for token in sorted(strangers)]
    for fate in evidence.fates:
        verdict.kinds[fate.wish.kind] += 1
        journal = evidence.journals.get(fate.wish.token, Journal())
        told = [*_mixed_up(fate), *_not_as_sent(fate, journal), *_sent_twice(fate, journal, evidence)]
        told += _outcome(fate, evidence)
        reason = "" if told or fate.left else _reason(fate, evidence, limits)
        if reason is None:
            told.append(f"failed without a reason: {_in_words(fate)} {evidence.logged.get(fate.wish.token)}")
        elif reason:
            verdict.explained[reason] += 1
        verdict.outcomes[_ended(fate)] += 1
        verdict.faults += [f"{fate.wish.token} ({fate.wish.kind}): {each}" for each in told]
    return verdict


def _ended(fate: Fate) -> str:
    if fate.left:
        return "left"
    return "served" if fate.done else f"{fate.status} {fate.error}"


def _in_words(fate: Fate) -> str:
    return (
        f"{_ended(fate)} after {len(fate.events)} events, {fate.sent_s:.2f} to {fate.ended_s:.2f}, temperature "
        f"{fate.wish.temperature}{', plain only' if fate.wish.only_plain else ''}, {fate.backend}, {fate.lost}"
    )


def _mixed_up(fate: Fate):
    """Whether anything in the answer is another's, out of order, or by more than one engine."""
    if fate.lost:
        yield f"no proper end: {fate.lost} ({_in_words(fate)})"
    others = {token for token, *_ in fate.events} - {fate.wish.token}
    if others:
        yield f"got the answer of {others}"
    if len({event[1:3] for event in fate.events}) > 1:
        yield f"answered by several engines: { {event[1:3] for event in fate.events} }"
    if [event[3] for event in fate.events] != list(range(len(fate.events))):
        yield f"events out of order, twice or missing: {[event[3] for event in fate.events]}"
    if fate.events and fate.backend != fate.events[0][1]:
        yield f"the header names {fate.backend}, the answer {fate.events[0][1]}"


def _not_as_sent(fate: Fate, journal: Journal):
    """Whether the client got what its engine said, and the engine what the client asked."""
    if journal.digests - {fate.sha256}:
        yield "an engine got another body than was sent"
    if fate.status != 200:
        return
    where = fate.events[0][1:3] if fate.events else max((o for o in journal.asked if o[0] == fate.backend), default="")
    said, got = journal.said[where], len(fate.events)
    if got > said:
        yield f"{got} events came, {said} were said"
    if fate.done and (got != said or where not in journal.ended or got != max(1, fate.wish.events)):
        yield f"whole after {got} events of {said} said and {fate.wish.events} wanted"
    elif not fate.done and not fate.left and fate.wish.kind != "slow reader" and said - got > UNSENT_MAX:
        yield f"{said} events were said and {got} came before the end"


def _sent_twice(fate: Fate, journal: Journal, evidence: Evidence):
    """Whether a request reached one engine twice, or another one while the first that had it still lived."""
    again = [where for where, count in journal.asked.items() if count > 1]
    if again:
        yield f"sent more than once to {again}"
    answered = {event[1:3] for event in fate.events}
    gone = {o.engine for o in evidence.outages if o.harm in GONE and _within(o, fate)}
    living = [where for where in journal.asked if where[0] not in gone and where not in answered]
    if len(living) > (0 if answered else 1):
        yield f"sent to {sorted(journal.asked)}, though {living} had not died"


def _within(outage: Outage, fate: Fate) -> bool:
    """Whether the outage began in the life of the request, or so shortly before that the router could not know."""
    return fate.sent_s - NOTICED_S <= outage.from_s <= fate.ended_s + NOTICED_S


def _outcome(fate: Fate, evidence: Evidence):
    """Whether the router's own account agrees, and is one."""
    lines = evidence.logged.get(fate.wish.token, [])
    if len(lines) != 1:
        yield f"{len(lines)} outcomes are logged"
        return
    outcome = lines[0]["outcome"]
    if fate.left:
        right = outcome in {"client_closed", "completed", "upstream_error", "upstream_timeout", "refused"}
    elif fate.done:
        right = outcome == "completed"
    else:
        right = outcome in {"upstream_error", "upstream_timeout", "refused"}
    if not right:
        yield f"the log says {outcome}, the client {_in_words(fate)}"


def _reason(fate: Fate, evidence: Evidence, limits: Limits) -> str | None:
    """Empty for a success; which of the permitted reasons a failure has; None: none of them."""
    if fate.done:
        return ""
    (line,) = evidence.logged[fate.wish.token]
    # A slow reader hears of the end long after it: the router dates it, from the moment in which it had the request.
    ended_s = min(fate.ended_s, fate.sent_s + NOTICED_S + line["finished_s"])
    backend = fate.backend or line["backend"]
    own = [outage for outage in evidence.outages if outage.engine == backend]
    if fate.status == 200:
        if any(o.harm in GONE and fate.sent_s <= o.to_s and o.from_s <= ended_s <= o.to_s + NOTICED_S for o in own):
            return DIED
        silent = [o for o in own if o.harm in STILL and o.to_s - o.from_s >= limits.idle_s - NOTICED_S]
        if any(o.from_s <= ended_s <= o.to_s + NOTICED_S for o in silent) and fate.error == "upstream_timeout":
            return SILENT
        return None
    if fate.status == 504:
        sent_s = fate.ended_s - limits.first_byte_s
        frozen = [o for o in own if o.harm in STILL and o.from_s <= fate.ended_s]
        return TIMED_OUT if any(sent_s <= o.from_s + limits.taken_out_s and sent_s <= o.to_s for o in frozen) else None
    if _nobody(fate, line["attempts"], evidence, limits):
        return NOBODY
    return SUSPECT if fate.status == 502 and _died_with_it(fate, evidence) >= LOST_MAX else None


def _died_with_it(fate: Fate, evidence: Evidence) -> int:
    """How many engines ended while the router may have had the request there."""
    return len({o.engine for o in evidence.outages if o.harm in GONE and _within(o, fate)})


def _nobody(fate: Fate, attempts: int, evidence: Evidence, limits: Limits) -> bool:
    """Whether in one moment of the request's life every backend that may serve it was out, or as many as are tried."""
    eligible = evidence.plain if fate.wish.only_plain else evidence.engines
    wanted = min(len(eligible), RANKED_MAX) if attempts >= RANKED_MAX else len(eligible)
    out = [
        (outage.from_s, outage.to_s + limits.brought_back_s, outage.engine)
        for outage in evidence.outages
        if outage.harm is not Harm.SLOW and outage.engine in eligible
    ]
    moments = [fate.sent_s, fate.ended_s, *(each for one in out for each in one[:2])]
    return any(
        len({engine for begin, end, engine in out if begin <= moment <= end}) >= wanted
        for moment in moments
        if fate.sent_s <= moment <= fate.ended_s
    )
