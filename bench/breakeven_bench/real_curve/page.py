"""A result as a page of Markdown. Everything on it comes out of the result: nothing is typed, so nothing gets stale."""

from collections.abc import Iterable, Sequence
from statistics import median

from breakeven_bench.real_curve.findings import (
    DRAFTING,
    SPECULATIVE,
    findings,
    is_near_tie,
    too_few_comparisons,
    verdict,
    words_by_chance,
)
from breakeven_bench.real_curve.result import BASELINE, DIRECT, ROUTER, Acceptance, Comparison, Result, Sample
from breakeven_bench.real_curve.timing import COMPARISONS_MIN, Place, Spread, places, relay_cost, speed_up, tpot_ms

TITLE = "Speculation on a real engine: what it yields and where it pays"

BUSY_LOAD = 0.5
"""Load average of one minute: half a core taken by others moves times by more than routers cost."""

_NONE = "-"


def page(result: Result) -> str:
    """The whole page."""
    sections = (
        _head(result),
        _acceptance(result),
        _times(result.samples),
        _router(result.samples),
        _greedy(result.comparison),
        _method(result),
        _provenance(result),
    )
    return "\n\n".join(sections) + "\n"


def _head(result: Result) -> str:
    origin = result.provenance
    about = (
        f"Written by `{origin.command}` on {origin.started_at[:10]}; every figure comes from the result file, and a "
        "test compares the two. The engines are vLLM's CPU build with SmolLM2-135M and a small EAGLE-3 head of our "
        "own: the mechanism is real, and the numbers are for this machine and this head only. They say nothing about "
        "where a GPU breaks even."
    )
    lines = [f"# {TITLE}", "", about, "", *(f"- {sentence}" for sentence in findings(result))]
    if origin.load_before >= BUSY_LOAD:
        busy = (
            f"**The machine was busy with other work** (load {origin.load_before:.1f} before anything was started): "
            "the counts do not mind, the times are noisy and longer than they need be."
        )
        lines += ["", busy]
    if too_few_comparisons(result.samples):
        lines += ["", f"Fewer than {COMPARISONS_MIN} comparisons were timed: nothing is decided here."]
    return "\n".join(lines)


def _acceptance(result: Result) -> str:
    rows = [
        (
            f"{point.temperature:g}",
            DRAFTING[point.engine],
            f"{point.length:.2f}",
            _quartiles(point.lengths),
            f"{point.rate:.3f}",
            " ".join(f"{share:.3f}" for share in point.per_position),
            f"{point.drafts}",
        )
        for point in _by_temperature(result.acceptance)
    ]
    heads = (
        "T",
        "drafting",
        "acceptance length",
        "middle half of the answers",
        "acceptance rate",
        "by position",
        "verifications",
    )
    return (
        "## Acceptance by temperature\n\n"
        f"Differences of vLLM's own counters over {result.extent.acceptance_prompts} answers of at most "
        f"{result.extent.acceptance_tokens} tokens, {result.extent.acceptance_streams} at a time. Length: tokens that "
        "a verification yields, 1 + accepted / verifications. Rate: accepted of all draft tokens. By position: the "
        f"share of verifications that accepted so far.\n\n{_table(heads, rows)}"
    )


def _by_temperature(points: Iterable[Acceptance]) -> list[Acceptance]:
    return sorted(points, key=lambda point: (point.temperature, SPECULATIVE.index(point.engine)))


def _times(samples: Sequence[Sample]) -> str:
    rows: list[tuple[str, ...]] = []
    for place in places(samples):
        plain = tpot_ms(samples, BASELINE, ROUTER, place)
        rows.append((*_place(place), BASELINE, _ms(plain), _NONE, _NONE, _NONE))
        for engine in SPECULATIVE:
            if (spread := tpot_ms(samples, engine, ROUTER, place)) is None:
                continue
            ratios = [speed_up(samples, engine, path, place) for path in (ROUTER, DIRECT)]
            rows.append(
                (*_place(place), engine, _ms(spread), *map(_times_as_fast, ratios), verdict(samples, engine, place))
            )
    heads = ("T", "at a time", "engine", "ms per output token", "speed-up", "speed-up, direct", "speculation")
    return (
        "## Time per output token, and where speculation pays\n\n"
        "Through the router, in milliseconds: the median of the rounds, in brackets the lowest and the highest round, "
        "then the number of answers. Speed-up: the baseline's time over the engine's in the same round. "
        f'"pays" and "does not pay" are said where every round, through the router and directly, is on one side of 1 '
        f"and these are at least {COMPARISONS_MIN} comparisons. Were nothing to be found, about "
        f"{words_by_chance(samples):.1f} of these rows would be decided by chance, and more as far as both ways of a "
        "round share its noise.\n\n"
        f"{_table(heads, rows)}"
    )


def _router(samples: Sequence[Sample]) -> str:
    rows = [
        (
            *_place(place),
            engine,
            *(_ms(tpot_ms(samples, engine, path, place)) for path in (ROUTER, DIRECT)),
            _percent(cost),
        )
        for place in places(samples)
        for engine in (BASELINE, *SPECULATIVE)
        if (cost := relay_cost(samples, engine, place)) is not None
    ]
    heads = ("T", "at a time", "engine", "through the router, ms", "directly, ms", "difference")
    return (
        "## What the router costs\n\n"
        "The same requests with and without it, in turn, in every round. The difference is of the rounds' ratios.\n\n"
        + _table(heads, rows)
    )


def _greedy(comparison: Comparison) -> str:
    head = (
        "## Greedy answers of both pools\n\n"
        f"{comparison.prompts} prompts at T = 0 through the router, once to each pool; {comparison.tokens} tokens "
        "compared. "
    )
    if not comparison.divergences:
        return head + "Not one answer differs."
    rows = [
        (
            each.prompt_id,
            f"{each.position}",
            _quoted(each.plain),
            _quoted(each.speculative),
            _NONE if each.plain_lead is None else f"{each.plain_lead:.3f}",
            "yes" if each.is_runner_up else "no",
            "rounding" if is_near_tie(each.plain_lead) else "not by rounding alone",
        )
        for each in comparison.divergences
    ]
    heads = ("prompt", "tokens alike", BASELINE, "eagle3", "lead, nats", "eagle3 took the runner-up", "explained by")
    return (
        head
        + "Lead: by how much the plain engine preferred its token to the runner-up at the first difference. A step "
        f"of another size rounds differently, so an all but even choice can fall either way.\n\n{_table(heads, rows)}"
    )


def _method(result: Result) -> str:
    extent = result.extent
    done = len({sample.round for sample in result.samples})
    cells = ", ".join(
        f"{requests} answers with {streams} at a time"
        for streams, requests in zip(extent.concurrencies, extent.timing_requests, strict=True)
    )
    return (
        "## How it was measured\n\n"
        f"- Times: {done} rounds of at most {extent.rounds}. In each, every engine on both paths gets the same "
        f"prompts: {cells}, of at most {extent.timing_tokens} tokens. One engine works at a time; who comes first "
        "turns with the round. Time per output token counts from the first event with tokens to the last, over the "
        "tokens after the first event, by the engine's own usage counts.\n"
        "- With several at a time, answers that end early leave the others more room: that flatters who is slower.\n"
        "- Probabilistic drafting is not timed at T = 0, where it drafts as greedy drafting does.\n"
        "- Every request carries a cache salt of its own, so no prefix cache answers it. Where an engine counts other "
        "tokens than the client received, the command fails.\n"
        "- Each engine computes with one thread. Client, routers and engines share the cores, and other programs may "
        "have used them: compare the rows of this page, not the page with another machine's."
    )


def _provenance(result: Result) -> str:
    origin = result.provenance
    rows = [
        ("started", origin.started_at),
        ("took", f"{origin.took_s / 60:.1f} min"),
        ("command", f"`{origin.command}`"),
        ("seed", f"{origin.seed}"),
        ("machine", origin.machine),
        ("CPU", origin.cpu),
        ("load before the start", f"{origin.load_before:.2f}"),
        *((name, number) for name, number in origin.versions.items()),
        *((name, f"`{words}`") for name, words in origin.engines.items()),
        ("prompts", f"sha256 `{origin.prompts_sha256}`"),
    ]
    return f"## Provenance\n\n{_table(('', ''), rows)}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _place(place: Place) -> tuple[str, str]:
    return f"{place.temperature:g}", f"{place.concurrency}"


def _ms(spread: Spread | None) -> str:
    return _NONE if spread is None else f"{spread.median:.1f} [{spread.low:.1f}, {spread.high:.1f}] n={spread.n}"


def _times_as_fast(spread: Spread | None) -> str:
    return _NONE if spread is None else f"{spread.median:.2f} [{spread.low:.2f}, {spread.high:.2f}]"


def _percent(spread: Spread) -> str:
    shares = (spread.median - 1.0, spread.low - 1.0, spread.high - 1.0)
    middle, low, high = (f"{share:+.1%}" for share in shares)
    return f"{middle} [{low}, {high}]"


def _quartiles(values: Sequence[float]) -> str:
    """The values between which the middle half lies; a dash for fewer than four."""
    if len(values) < 4:
        return _NONE
    ordered = sorted(values)
    half = len(ordered) // 2
    return f"{median(ordered[:half]):.2f} to {median(ordered[-half:]):.2f}"


def _quoted(text: str) -> str:
    """A text as code in a cell: on one line, without what would end cell or code."""
    plain = text.replace("\n", "⏎").replace("|", "¦").replace("`", "'")
    return f"`{plain}`" if plain else "(ended)"
