"""Two small charts as inline SVG: latency over load, and differences with their intervals. Values in, text out.

Colours come from a palette that stays apart for the common kinds of colour blindness (Okabe and Ito); each line also
has its own dashes and its name at its end, so that nothing depends on colour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("none", "6 3", "2 3", "8 3 2 3", "12 4", "1 2")

WIDTH = 760
HEIGHT = 340
LEFT, RIGHT, TOP, BOTTOM = 48, 210, 24, 44
ROW = 24
NAMES = 210
MARGIN = 28
LABEL_GAP = 14
TICK_GAP = 34
"""All in pixels. Between the names at the ends of two lines: one line of 12 px text; between the centres of two labels
below the axis: four digits and a space. The margin is half a label that hangs over the end of the axis.
"""

TICKS_MAX = 7
"""Labels of the axis of differences: each then has over 80 pixels, twice what it needs."""

PERCENT_RANGE_MIN = 1.0
"""The least that the axis of differences spans: no run of a minute resolves a part of it."""


@dataclass(frozen=True, slots=True)
class Point:
    """A mean latency at a rate; one that did not settle is drawn hollow. `y` is positive."""

    x: float
    y: float
    settled: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One arm over the rates."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference in percent between its bounds."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One arm's difference; None where there is none, and `words` say why."""

    name: str
    words: str
    difference: Interval | None = None


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a value stands in the latency chart; y is logarithmic between two ticks."""

    x_max: float
    bottom: float
    top: float

    def x(self, value: float) -> float:
        return LEFT + value / self.x_max * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (log10(self.top) - log10(value)) / (log10(self.top) - log10(self.bottom))
        return TOP + share * (HEIGHT - TOP - BOTTOM)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a percentage stands in the chart of differences, from the first tick to the last."""

    low: float
    high: float

    def x(self, percent: float) -> float:
        left, right = NAMES + MARGIN, WIDTH - MARGIN
        return left + (percent - self.low) / (self.high - self.low) * (right - left)


def latency_chart(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Latency over load; an empty text where no line has a point."""
    drawn = [line for line in lines if line.points]
    points = [point for line in drawn for point in line.points]
    if not points:
        return ""
    ticks = ticks_around([point.y for point in points])
    frame = _Frame(1.05 * max(point.x for point in points), ticks[0], ticks[-1])
    parts = [_grid(frame.y(tick), f"{tick:g}") for tick in ticks]
    rates = thinned(sorted({point.x for point in points}), TICK_GAP * frame.x_max / (WIDTH - LEFT - RIGHT))
    parts += [_text(frame.x(rate), HEIGHT - BOTTOM + 18, f"{rate:g}", "middle") for rate in rates]
    names_y = spread_apart([frame.y(line.points[-1].y) for line in drawn], LABEL_GAP, HEIGHT - BOTTOM)
    for index, line in enumerate(drawn):
        parts.append(_path(line, frame, index))
        parts.append(_text(WIDTH - RIGHT + 12, names_y[index] + 4, line.name, "start", COLOURS[index % len(COLOURS)]))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle"))
    parts.append(_text(0, 12, y_label))
    return _svg(HEIGHT, f"{y_label} over {x_label}", parts)


def difference_chart(bars: Sequence[Bar], label: str) -> str:
    """Differences and a line at zero, over the range of the data; to the right: slower."""
    shown = [bar.difference for bar in bars if bar.difference is not None]
    ticks = percent_ticks([bound for difference in shown for bound in (difference.low, difference.high)])
    scale = _Scale(ticks[0], ticks[-1])
    height = TOP + ROW * len(bars) + BOTTOM
    parts = [f'<line class="grid" x1="{scale.x(0):.1f}" x2="{scale.x(0):.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>']
    parts += [_text(scale.x(tick), height - BOTTOM + 18, f"{tick:+g} %" if tick else "0", "middle") for tick in ticks]
    parts.append(_text((NAMES + WIDTH) / 2, height - 6, label, "middle"))
    for row, bar in enumerate(bars):
        y = TOP + ROW * (row + 0.5)
        parts.append(_text(0, y + 4, bar.name))
        words = _text(NAMES, y + 4, bar.words, kind="over")
        parts.append(words if bar.difference is None else _interval(bar.difference, bar.words, y, scale))
    return _svg(height, label, parts)


def percent_ticks(values: Sequence[float]) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, at most TICKS_MAX, that enclose zero and all values."""
    low, high = min((0.0, *values)), max((0.0, *values))
    least = max(high - low, PERCENT_RANGE_MIN) / (TICKS_MAX - 2)
    power = 10.0 ** floor(log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least)
    first, last = floor(low / step), max(ceil(high / step), floor(low / step) + 1)
    return [round(index * step, 6) for index in range(first, last + 1)]


def thinned(rising: Sequence[float], gap: float) -> list[float]:
    """The values that are at least `gap` above the last one kept: their labels do not overlap."""
    kept: list[float] = []
    for value in rising:
        if not kept or value - kept[-1] >= gap:
            kept.append(value)
    return kept


def ticks_around(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten from below the smallest of some positive values to above the largest."""
    # A decade more at each end: the logarithm of 9999.999999999998 rounds to 4.
    exponents = range(floor(log10(min(values))) - 1, ceil(log10(max(values))) + 2)
    steps = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
    first = max(index for index, step in enumerate(steps) if step <= min(values))
    last = min(index for index, step in enumerate(steps) if step > max(values))
    return steps[first : last + 1]


def spread_apart(wanted: Sequence[float], gap: float, lowest: float) -> list[float]:
    """Positions near the wanted ones, in the same order, no two closer than `gap`; moved up where one passes `lowest`.

    y grows downwards.
    """
    placed = [0.0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    above: float | None = None
    for index in order:
        above = wanted[index] if above is None else max(wanted[index], above + gap)
        placed[index] = above
    below = lowest + gap
    for index in reversed(order):
        below = placed[index] = min(placed[index], below - gap)
    return placed


def _path(line: Line, frame: _Frame, index: int) -> str:
    colour, dashes = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
    corners = " ".join(f"{frame.x(point.x):.1f},{frame.y(point.y):.1f}" for point in line.points)
    dots = "".join(
        f'<circle cx="{frame.x(point.x):.1f}" cy="{frame.y(point.y):.1f}" r="4" stroke="{colour}" '
        f'fill="{colour if point.settled else "var(--page)"}"><title>{escape(_told(line.name, point))}</title></circle>'
        for point in line.points
    )
    return f'<polyline points="{corners}" stroke="{colour}" stroke-dasharray="{dashes}" fill="none"/>{dots}'


def _told(name: str, point: Point) -> str:
    return f"{name}, {point.x:g}/s: {point.y:.2f} s" + ("" if point.settled else ", did not settle")


def _interval(difference: Interval, words: str, y: float, scale: _Scale) -> str:
    low, value, high = scale.x(difference.low), scale.x(difference.value), scale.x(difference.high)
    kind = "slower" if difference.low > 0.0 else "faster" if difference.high < 0.0 else "same"
    return (
        f'<g class="{kind}"><title>{escape(words)}</title>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/><circle cx="{value:.1f}" cy="{y}" r="5"/></g>'
    )


def _grid(y: float, label: str) -> str:
    line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + _text(LEFT - 6, y + 4, label, "end")


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "currentColor", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(title)}</title>\n{inside}\n</svg>'
