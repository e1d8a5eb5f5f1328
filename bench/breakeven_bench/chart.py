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
LABEL_GAP = 14
"""All in pixels. The gap between the names at the ends of two lines is one line of 12 px text."""


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
class Bar:
    """One arm's difference in percent with its interval; all None where there is none, and `words` say why."""

    name: str
    words: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


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


def latency_chart(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Latency over load; an empty text where no line has a point."""
    drawn = [line for line in lines if line.points]
    points = [point for line in drawn for point in line.points]
    if not points:
        return ""
    ticks = ticks_around([point.y for point in points])
    frame = _Frame(1.05 * max(point.x for point in points), ticks[0], ticks[-1])
    parts = [_grid(frame.y(tick), f"{tick:g}") for tick in ticks]
    parts += [
        _text(frame.x(x), HEIGHT - BOTTOM + 18, f"{x:g}", "middle") for x in sorted({point.x for point in points})
    ]
    names_y = spread_apart([frame.y(line.points[-1].y) for line in drawn], LABEL_GAP)
    for index, line in enumerate(drawn):
        parts.append(_path(line, frame, index))
        parts.append(_text(WIDTH - RIGHT + 12, names_y[index] + 4, line.name, "start", COLOURS[index % len(COLOURS)]))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle"))
    parts.append(_text(0, 12, y_label))
    return _svg(HEIGHT, f"{y_label} over {x_label}", parts)


def difference_chart(bars: Sequence[Bar], label: str) -> str:
    """Differences around zero, to the right: slower."""
    known = [abs(bound) for bar in bars for bound in (bar.low, bar.high) if bound is not None]
    reach = max(known, default=0.0) or 1.0
    height = TOP + ROW * len(bars) + BOTTOM
    zero, scale = (NAMES + WIDTH) / 2, (WIDTH - NAMES) / 2 / (1.15 * reach)
    parts = [f'<line class="grid" x1="{zero}" x2="{zero}" y1="{TOP}" y2="{height - BOTTOM}"/>']
    parts += [
        _text(zero + scale * tick, height - BOTTOM + 18, f"{tick:+.0f} %" if tick else "0", "middle")
        for tick in (-reach, 0.0, reach)
    ]
    parts.append(_text(zero, height - 6, label, "middle"))
    for row, bar in enumerate(bars):
        y = TOP + ROW * (row + 0.5)
        parts.append(_text(0, y + 4, bar.name))
        parts.append(_text(NAMES, y + 4, bar.words) if bar.value is None else _interval(bar, y, zero, scale))
    return _svg(height, label, parts)


def ticks_around(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten from below the smallest of some positive values to above the largest."""
    # A decade more at each end: the logarithm of 9999.999999999998 rounds to 4.
    exponents = range(floor(log10(min(values))) - 1, ceil(log10(max(values))) + 2)
    steps = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
    first = max(index for index, step in enumerate(steps) if step <= min(values))
    last = min(index for index, step in enumerate(steps) if step > max(values))
    return steps[first : last + 1]


def spread_apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions near the wanted ones, in the same order, no two closer than `gap`."""
    placed = [0.0] * len(wanted)
    previous: float | None = None
    for index in sorted(range(len(wanted)), key=lambda index: wanted[index]):
        previous = wanted[index] if previous is None else max(wanted[index], previous + gap)
        placed[index] = previous
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


def _interval(bar: Bar, y: float, zero: float, scale: float) -> str:
    value, low, high = (zero + scale * (bound or 0.0) for bound in (bar.value, bar.low, bar.high))
    kind = "slower" if low > zero else "faster" if high < zero else "same"
    return (
        f'<g class="{kind}"><title>{escape(bar.words)}</title>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/><circle cx="{value:.1f}" cy="{y}" r="5"/></g>'
    )


def _grid(y: float, label: str) -> str:
    line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + _text(LEFT - 6, y + 4, label, "end")


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "currentColor") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(title)}</title>\n{inside}\n</svg>'
