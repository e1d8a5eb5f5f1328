"""A study as Markdown: what every pair carries, how long requests take, and every place where the policy loses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from breakeven_bench.fleet_model.result import Row, Study

POLICY = "breakeven"
TOLD = "told"
EQUAL = "equal-"
"""What the names of equal-hardware arms begin with; they stand beside every figure and are no rivals on the pools."""

SCENARIO = f"{POLICY}-"
"""What the names of arms begin with that are the policy in worse conditions."""

WORSE_MAX = 0.03
"""A mean that is worse by more than this is named a loss."""

NOTHING = "–"
UNSTABLE = "unstable"


@dataclass(frozen=True, slots=True)
class Margin:
    """The policy against its best rival at one place: above 0 is slower. `told` likewise, against the told rule."""

    pair: str
    world: str
    load: str
    rate: float
    rival: str
    against_rival: float
    against_told: float | None
    best_equal: str | None
    against_equal: float | None


def margins(study: Study, policy: str = POLICY) -> list[Margin]:
    """One for each rate at which the policy and at least one rival are stable."""
    found = []
    for pair, world, load in study.places():
        for rate, arms in study.of(pair, world, load).items():
            mine = _stable(arms.get(policy))
            rival = _rival(arms, policy)
            if mine is None or rival is None:
                continue
            told = _stable(arms.get(TOLD))
            equal = _best(arms, lambda name: name.startswith(EQUAL))
            found.append(
                Margin(
                    pair,
                    world,
                    load,
                    rate,
                    rival[0],
                    mine / rival[1] - 1.0,
                    None if told is None else mine / told - 1.0,
                    None if equal is None else equal[0],
                    None if equal is None else mine / equal[1] - 1.0,
                )
            )
    return found


def losses(study: Study, policy: str = POLICY) -> list[Margin]:
    """Where the policy is worse than its best rival by more than `WORSE_MAX`."""
    return [margin for margin in margins(study, policy) if margin.against_rival > WORSE_MAX]


def drowned(study: Study, policy: str = POLICY) -> list[Row]:
    """Where the policy is unstable and some rival on the same pools is not."""
    found = []
    for place in study.places():
        for arms in study.of(*place).values():
            mine = arms.get(policy)
            if mine is not None and not mine.stable and _rival(arms, policy) is not None:
                found.append(mine)
    return found


def latency_table(study: Study, pair: str, world: str, load: str = "mixed") -> str:
    """Mean seconds per request: a row for each rate, a column for each arm; the best of each row is bold."""
    rates = study.of(pair, world, load)
    arms = list(dict.fromkeys(arm for row in rates.values() for arm in row))
    head = ["requests/s", *(study.titles.get(arm, arm) for arm in arms)]
    rows = []
    for rate, cells in rates.items():
        stable = [mean for arm in arms if (mean := _stable(cells.get(arm))) is not None]
        rows.append([f"{rate:g}", *(_cell(cells.get(arm), min(stable, default=None)) for arm in arms)])
    return markdown(head, rows)


def capacity_table(study: Study) -> str:
    """The highest rate that each arm carries: a row for each pair and world."""
    places = list(dict.fromkeys((each.pair, each.world) for each in study.capacities))
    arms = list(dict.fromkeys(_column(each.arm) for each in study.capacities))
    rows = []
    for pair, world in places:
        carried: dict[str, float] = {}
        for arm, rate in study.capacity_of(pair, world).items():
            carried[_column(arm)] = max(rate, carried.get(_column(arm), 0.0))
        rows.append([study.titles.get(pair, pair), world, *(_rate(carried.get(arm)) for arm in arms)])
    titles = {"all-one": "all on one pool, the best"}
    return markdown(["fleet", "world", *(titles.get(arm, study.titles.get(arm, arm)) for arm in arms)], rows)


def margin_table(study: Study, policy: str = POLICY) -> str:
    """For each pair, world and load the worst and the best margin of the policy over the rates, and where."""
    grouped: dict[tuple[str, str, str], list[Margin]] = {}
    for margin in margins(study, policy):
        grouped.setdefault((margin.pair, margin.world, margin.load), []).append(margin)
    rows = []
    for (pair, world, load), here in grouped.items():
        worst = max(here, key=lambda margin: margin.against_rival)
        best = min(here, key=lambda margin: margin.against_rival)
        told = [margin.against_told for margin in here if margin.against_told is not None]
        equal = [margin for margin in here if margin.against_equal is not None]
        worst_equal = max(equal, key=lambda margin: margin.against_equal or 0.0, default=None)
        rows.append(
            [
                study.titles.get(pair, pair),
                world if load == "mixed" else f"{world}, {load}",
                f"{_percent(worst.against_rival)} at {worst.rate:g} ({study.titles.get(worst.rival, worst.rival)})",
                f"{_percent(best.against_rival)} at {best.rate:g} ({study.titles.get(best.rival, best.rival)})",
                _percent(max(told)) if told else NOTHING,
                _equal(study, worst_equal),
            ]
        )
    head = [
        "fleet",
        "world",
        "worst rate against its best rival",
        "best rate",
        "worst against told",
        "worst against equal hardware",
    ]
    return markdown(head, rows)


def scenario_table(study: Study) -> str:
    """The policy in worse conditions against itself: for each fleet and condition the worst rate and the mean."""
    rows = []
    for place in study.places():
        found: dict[str, list[tuple[float, float]]] = {}
        drowned_in: dict[str, int] = {}
        for rate, arms in study.of(*place).items():
            usual = _stable(arms.get(POLICY))
            for name, row in arms.items():
                if usual is None or not name.startswith(SCENARIO):
                    continue
                worse = _stable(row)
                if worse is None:
                    drowned_in[name] = drowned_in.get(name, 0) + 1
                else:
                    found.setdefault(name, []).append((worse / usual - 1.0, rate))
        for name, margins_here in found.items():
            worst, rate = max(margins_here)
            mean = sum(margin for margin, _ in margins_here) / len(margins_here)
            cells = [study.titles.get(place[0], place[0]), study.titles.get(name, name)]
            rows.append([*cells, f"{_percent(worst)} at {rate:g}", _percent(mean), str(drowned_in.get(name, 0))])
    head = ["fleet", "condition", "worst rate against the usual", "mean over the rates", "rates at which it drowned"]
    return markdown(head, rows)


def loss_sentences(study: Study, policy: str = POLICY) -> list[str]:
    """Every loss in words; none: one sentence that says so."""
    sentences = [
        f"{_place(study, each)}: {_percent(each.against_rival)} against {study.titles.get(each.rival, each.rival)}."
        for each in losses(study, policy)
    ]
    sentences += [
        f"{_place(study, row)}: unstable, where another use of the same pools is not." for row in drowned(study, policy)
    ]
    if sentences:
        return sentences
    return [f"Nowhere is {policy} more than {WORSE_MAX:.0%} slower than the best other use of the same pools."]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; figures stand to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def _column(arm: str) -> str:
    return "all-one" if arm.startswith("all-") else arm


def _stable(row: Row | None) -> float | None:
    return row.mean_s if row is not None and row.stable else None


def _rival(arms: dict[str, Row], policy: str) -> tuple[str, float] | None:
    no_rivals = (EQUAL, TOLD, POLICY, policy)
    return _best(arms, lambda name: not name.startswith(no_rivals))


def _best(arms: dict[str, Row], allowed: Callable[[str], bool]) -> tuple[str, float] | None:
    stable = [(mean, name) for name, row in arms.items() if allowed(name) and (mean := _stable(row)) is not None]
    if not stable:
        return None
    mean, name = min(stable)
    return name, mean


def _cell(row: Row | None, best: float | None) -> str:
    if row is None:
        return NOTHING
    mean = _stable(row)
    if mean is None:
        return UNSTABLE
    words = f"{mean:.2f}"
    return f"**{words}**" if mean == best else words


def _equal(study: Study, margin: Margin | None) -> str:
    if margin is None or margin.against_equal is None or margin.best_equal is None:
        return NOTHING
    title = study.titles.get(margin.best_equal, margin.best_equal)
    return f"{_percent(margin.against_equal)} at {margin.rate:g} ({title})"


def _place(study: Study, at: Margin | Row) -> str:
    load = "" if at.load == "mixed" else f", {at.load}"
    return f"{study.titles.get(at.pair, at.pair)}, {at.world}{load}, {at.rate:g}/s"


def _percent(share: float) -> str:
    return f"{share:+.1%}"


def _rate(rate: float | None) -> str:
    return NOTHING if rate is None else f"{rate:.2f}"
