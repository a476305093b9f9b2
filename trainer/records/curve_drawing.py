"""Curves of runs as SVG: one panel a figure, one line a run, told apart by colour and by dashes. No torch here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

STYLE = """
:root, svg { color-scheme: light dark; --paper: #ffffff; --ink: #16181d; --dim: #565c66; --grid: #d9dce2; }
@media (prefers-color-scheme: dark) {
  :root, svg { --paper: #14161a; --ink: #eceef2; --dim: #a9b0bb; --grid: #363b45; }
}
svg text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--ink); }
svg text.dim, svg tspan.dim { fill: var(--dim); font-weight: normal; } svg text.strong { font-weight: bold; }
svg .grid { stroke: var(--grid); stroke-width: 1; fill: none; }
svg .run { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .raw { stroke-opacity: 0.3; stroke-width: 1; stroke-dasharray: none !important; }
svg .run-0 { stroke: #2f6fde; } svg .run-1 { stroke: #d9822b; stroke-dasharray: 7 3; }
svg .run-2 { stroke: #2e9e5b; stroke-dasharray: 2 3; } svg .run-3 { stroke: #c2407e; stroke-dasharray: 9 3 2 3; }
svg .run-4 { stroke: #9a4fd1; stroke-dasharray: 4 2; } svg .run-5 { stroke: #1899a6; stroke-dasharray: 12 4; }
"""
LINES = 6
"""Kinds of line; a seventh run looks like the first."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560.0, 230.0, 78.0, 14.0, 34.0, 34.0
_TICKS, _POINTS, _STRETCHES = 4, 500, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a panel."""

    run: int
    """Number of its run, which decides how the line looks."""
    name: str
    points: tuple[tuple[float, float], ...]
    """(step, value), by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One figure over the steps."""

    title: str
    unit: str
    curves: tuple[Curve, ...]


def drawing(panels: Sequence[Panel], names: Sequence[str]) -> str:
    """Return the picture: two panels a row, with the names of the runs above them."""
    legend = 26.0 + 18 * len(names)
    rows = -(-len(panels) // 2)
    width, height = 2 * _WIDTH, legend + rows * _HEIGHT
    parts = ["".join(_named(at, name) for at, name in enumerate(names))]
    for at, panel in enumerate(panels):
        x, y = (at % 2) * _WIDTH, legend + (at // 2) * _HEIGHT
        parts.append(f'<g transform="translate({x:.0f} {y:.0f})">{_panel(panel)}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="Curves of {len(names)} runs"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" style="fill: var(--paper)"/>{"".join(parts)}</svg>'
    )


def _named(at: int, name: str) -> str:
    y = 22 + 18 * at
    line = f'<path class="run run-{at % LINES}" d="M14 {y - 4}h40"/>'
    return f'{line}<text x="62" y="{y}">{escape(name)}</text>'


def _panel(panel: Panel) -> str:
    unit = f'<tspan class="dim">, {escape(panel.unit)}</tspan>' if panel.unit else ""
    head = f'<text class="strong" x="{_LEFT:.0f}" y="20">{escape(panel.title)}{unit}</text>'
    values = [value for curve in panel.curves for _, value in curve.points]
    steps = [step for curve in panel.curves for step, _ in curve.points]
    if not values:
        return f'{head}<text class="dim" x="{_LEFT:.0f}" y="60">no run says anything of it</text>'
    low, high = _range(values)
    first, last = min(steps), max(*steps, min(steps) + 1)

    def across(step: float) -> float:
        return _LEFT + (step - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [head]
    for at in range(_TICKS + 1):
        value = low + (high - low) * at / _TICKS
        y = up(value)
        parts.append(f'<path class="grid" d="M{_LEFT:.0f} {y:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
        parts.append(f'<text class="dim" x="{_LEFT - 6:.0f}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for step, anchor in ((first, "start"), (last, "end")):
        text = f"step {short(step)}" if anchor == "start" else short(step)
        at_y = _HEIGHT - _BOTTOM + 18
        parts.append(f'<text class="dim" x="{across(step):.1f}" y="{at_y:.0f}" text-anchor="{anchor}">{text}</text>')
    for curve in panel.curves:
        middle = medians(curve.points)
        lines = [("raw ", thinned(curve.points))] if middle else []
        for kind, shown in (*lines, ("", middle or curve.points)):
            line = " ".join(f"{across(step):.1f},{up(value):.1f}" for step, value in shown)
            title = f"<title>{escape(curve.name)}</title>"
            parts.append(f'<polyline class="{kind}run run-{curve.run % LINES}" points="{line}">{title}</polyline>')
    return "".join(parts)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most as many points as a panel shows: of each stretch the lowest and the highest, so peaks stay."""
    if len(points) <= _POINTS:
        return list(points)
    each = -(-len(points) // (_POINTS // 2))
    kept: list[tuple[float, float]] = []
    for at in range(0, len(points), each):
        stretch = points[at : at + each]
        extremes = {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
        kept += sorted(extremes)
    return kept


def medians(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the median of each stretch of a long line, so that noisy runs can be told apart; empty for a short one."""
    each = len(points) // _STRETCHES
    if each < 2:
        return []
    parts = [points[at : at + each] for at in range(0, len(points), each)]
    return [(part[len(part) // 2][0], median(value for _, value in part)) for part in parts]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if low >= 0 and low < high / 2:
        low = 0.0
    room = (high - low) * 0.05 or max(abs(high), 1.0) * 0.05
    return (low if low == 0 else low - room), high + room


def short(value: float) -> str:
    """Return a number as an axis shows it."""
    if value == 0:
        return "0"
    if abs(value) >= 10_000:
        return f"{value / 1000:.4g}k"
    return f"{value:.3g}" if abs(value) < 1000 and not float(value).is_integer() else f"{math.floor(value + 0.5):d}"
