"""Line charts as SVG: ticks, axes, gaps where a value is missing, a legend with first and last.

Series differ by dash and by colour. What a chart holds is given; nothing here reads files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .render import render_fragment

WIDTH_PX, HEIGHT_PX = 440, 240
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 44, 12, 26, 40
# Looks of a series in page.css; a chart with more series repeats them.
NUM_LOOKS = 6
# A run of more points is thinned to the extremes of as many spans as can be told apart.
MAX_POINTS = 400
# Beyond so many points the tooltips lie over one another and only make the file large.
MAX_TOOLTIPS = 80

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A line; a value that is None, NaN or infinite is a gap in it."""

    name: str
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True)
class Chart:
    """A chart of one or more series over one x axis.

    Attributes:
        y_low: where the y axis begins at the latest (0 for shares); None takes the smallest value.
        y_high: where it ends at the earliest; None takes the largest.
    """

    title: str
    series: tuple[Series, ...]
    x_label: str
    y_label: str
    note: str = ""
    y_low: float | None = None
    y_high: float | None = None


@dataclass(frozen=True)
class Axis:
    """A linear map from values to pixels, with its ticks."""

    low: float
    high: float
    start_px: float
    end_px: float
    ticks: tuple[float, ...]

    def px(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start_px + share * (self.end_px - self.start_px), 1)


def render_chart(chart: Chart) -> Markup:
    """The chart as an HTML figure; a chart without any value says so."""
    runs = [split_at_gaps(series.points) for series in chart.series]
    known = [point for series_runs in runs for run in series_runs for point in run]
    if not known:
        return render_fragment("chart.html.j2", chart=chart, lines=(), x_axis=None, y_axis=None)
    x_axis = build_axis((x for x, _ in known), LEFT_PX, WIDTH_PX - RIGHT_PX, is_snug=True)
    bounds = [bound for bound in (chart.y_low, chart.y_high) if bound is not None]
    y_values = [*(y for _, y in known), *bounds]
    y_axis = build_axis(y_values, HEIGHT_PX - BOTTOM_PX, TOP_PX)
    lines = [
        _build_line(idx, series.name, series_runs, x_axis, y_axis)
        for idx, (series, series_runs) in enumerate(zip(chart.series, runs, strict=True))
    ]
    return render_fragment(
        "chart.html.j2",
        chart=chart,
        lines=lines,
        x_axis=x_axis,
        y_axis=y_axis,
        width=WIDTH_PX,
        height=HEIGHT_PX,
        format_number=format_number,
    )


def build_axis(
    values: Iterable[float], start_px: float, end_px: float, is_snug: bool = False
) -> Axis:
    """An axis over at least one value.

    Args:
        is_snug: end at the extremes instead of at the ticks outside them.
    """
    known = list(values)
    low, high = min(known), max(known)
    if low == high:
        margin = abs(low) / 2 or 0.5
        low, high = low - margin, high + margin
    ticks = nice_ticks(low, high)
    if is_snug:
        ticks = [tick for tick in ticks if low <= tick <= high]
    else:
        low, high = ticks[0], ticks[-1]
    return Axis(low, high, start_px, end_px, tuple(ticks))


def nice_ticks(low: float, high: float, num_wanted: int = 5) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten that enclose [low, high], low < high."""
    raw = (high - low) / num_wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((f * power for f in (1, 2, 2.5, 5) if f * power >= raw * (1 - 1e-9)), 10 * power)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(idx * step, 12) for idx in range(first, last + 1)]


def split_at_gaps(points: Sequence[tuple[float, float | None]]) -> list[list[Point]]:
    """Runs of points with a finite value, in order; never an empty run."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if y is None or not math.isfinite(y):
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if run]


def thin(run: Sequence[Point], max_points: int = MAX_POINTS) -> list[Point]:
    """Keeps the lowest and the highest point of equal spans, so that no spike is lost."""
    if len(run) <= max_points:
        return list(run)
    num_spans = max_points // 2
    kept: list[Point] = []
    for span in range(num_spans):
        part = run[span * len(run) // num_spans : (span + 1) * len(run) // num_spans]
        extremes = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
        kept += sorted(extremes)
    return kept


def svg_path(run: Sequence[Point], x_axis: Axis, y_axis: Axis) -> str:
    """The `d` of a run of points."""
    return "".join(
        f"{'L' if idx else 'M'}{x_axis.px(x)},{y_axis.px(y)}" for idx, (x, y) in enumerate(run)
    )


def format_number(value: float) -> str:
    """Four significant digits, thousands grouped: `0.6912`, `1e-06`, `12,340`."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("-", "−", 1) if value < 0 else f"{value:.4g}"


def _build_line(
    idx: int, name: str, runs: Sequence[Sequence[Point]], x_axis: Axis, y_axis: Axis
) -> dict[str, object]:
    points = [point for run in runs for point in run]
    shown = points if len(points) <= MAX_TOOLTIPS else []
    lone = [run[0] for run in runs if len(run) == 1]
    return {
        "name": name,
        "look": idx % NUM_LOOKS,
        "path": "".join(svg_path(thin(run), x_axis, y_axis) for run in runs if len(run) > 1),
        "dots": [(x_axis.px(x), y_axis.px(y)) for x, y in lone],
        "tips": [(x_axis.px(x), y_axis.px(y), x, y) for x, y in shown],
        "first": points[0][1] if points else None,
        "last": points[-1][1] if points else None,
    }
