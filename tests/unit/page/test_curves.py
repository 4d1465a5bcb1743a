"""Chart geometry by hand, gaps, empty input, thinning."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proact_train.page.curves import (
    HEIGHT_PX,
    LEFT_PX,
    RIGHT_PX,
    WIDTH_PX,
    Chart,
    Series,
    build_axis,
    format_number,
    nice_ticks,
    render_chart,
    split_at_gaps,
    svg_path,
    thin,
)


def chart(*series: Series) -> Chart:
    return Chart("Loss", series, "step", "nats")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.13, 2.18, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
        (-1.0, 1.0, [-1.0, -0.5, 0.0, 0.5, 1.0]),
        (10.0, 320.0, [0.0, 100.0, 200.0, 300.0, 400.0]),
        (0.0, 1e-7, [0.0, 2e-8, 4e-8, 6e-8, 8e-8, 1e-7]),
    ],
)
def test_ticks_by_hand(low, high, ticks):
    assert nice_ticks(low, high) == pytest.approx(ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_enclose_the_values_evenly(low, width):
    ticks = nice_ticks(low, low + width)
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert ticks[0] <= low + 1e-6 * width
    assert ticks[-1] >= low + width * (1 - 1e-6)
    assert 3 <= len(ticks) <= 8
    assert max(steps) - min(steps) <= 1e-6 * max(steps)


def test_an_axis_maps_its_ends_to_its_pixels():
    axis = build_axis([0.1, 0.9], 200, 0)
    assert (axis.low, axis.high) == (0.0, 1.0)
    assert [axis.px(value) for value in (0.0, 0.25, 1.0)] == [200.0, 150.0, 0.0]
    snug = build_axis([10, 320], 0, 310, is_snug=True)
    assert (snug.low, snug.high, snug.ticks) == (10, 320, (100, 200, 300))
    assert snug.px(165) == 155.0


def test_a_constant_gets_a_margin():
    axis = build_axis([2.0, 2.0], 100, 0)
    assert axis.low <= 1.0
    assert axis.high >= 3.0
    assert axis.px(2.0) == 50.0
    assert build_axis([0.0], 100, 0).px(0.0) == 50.0


def test_a_path_by_hand():
    x_axis = build_axis([0, 10], 0, 100, is_snug=True)
    y_axis = build_axis([0, 1], 50, 0)
    assert (
        svg_path([(0, 0.0), (5, 1.0), (10, 0.5)], x_axis, y_axis) == "M0.0,50.0L50.0,0.0L100.0,25.0"
    )


def test_none_nan_and_infinity_are_gaps():
    points = [(1, 1.0), (2, None), (3, 3.0), (4, math.nan), (5, math.inf), (6, 6.0), (7, 7.0)]
    assert split_at_gaps(points) == [[(1, 1.0)], [(3, 3.0)], [(6, 6.0), (7, 7.0)]]
    assert split_at_gaps([]) == []
    assert split_at_gaps([(1, None)]) == []


def test_a_gap_breaks_the_line_and_a_lone_point_is_a_dot():
    points = ((0.0, 0.0), (1.0, 1.0), (2.0, None), (3.0, 1.0), (4.0, None), (5.0, 0.0), (6.0, 1.0))
    html = render_chart(chart(Series("a", points)))
    (path,) = [part.split('"')[0] for part in html.split(' d="')[1:]]
    assert path.count("M") == 2
    assert path.startswith(f"M{float(LEFT_PX)},")
    assert f"L{float(WIDTH_PX - RIGHT_PX)}," in path
    assert html.count('class="dot') == 1
    assert "nan" not in html.lower()


def test_without_any_value_the_chart_says_so():
    for empty in (chart(), chart(Series("a", ())), chart(Series("a", ((1.0, None),)))):
        html = render_chart(empty)
        assert "No values." in html
        assert "<svg" not in html


def test_a_series_without_values_stays_in_the_legend():
    html = render_chart(chart(Series("a", ((0.0, 1.0), (1.0, 2.0))), Series("b", ((0.0, None),))))
    assert "<span>b</span>" in html
    assert "no values" in html
    assert "1 → 2" in html


def test_series_differ_by_more_than_colour():
    points = ((0.0, 0.0), (1.0, 1.0))
    html = render_chart(chart(*(Series(str(idx), points) for idx in range(7))))
    assert [html.count(f'class="line look{look}" d=') for look in range(6)] == [2, 1, 1, 1, 1, 1]


def test_bounds_widen_the_axis_and_never_cut_a_value():
    points = ((0.0, 0.4), (1.0, 1.3))
    html = render_chart(Chart("t", (Series("a", points),), "x", "y", y_low=0.0, y_high=1.0))
    assert ">1.5</text>" in html
    assert ">0</text>" in html
    ys = [
        float(part.split(",")[1].split("L")[0])
        for part in html.split(' d="')[1].split('"')[0].split("L")
    ]
    assert all(0 <= y <= HEIGHT_PX for y in ys)


def test_thinning_keeps_extremes_order_and_short_runs():
    run = [(float(idx), 0.0) for idx in range(1000)]
    run[517] = (517.0, 9.0)
    run[518] = (518.0, -9.0)
    kept = thin(run, 100)
    assert len(kept) <= 100
    assert (517.0, 9.0) in kept
    assert (518.0, -9.0) in kept
    assert kept == sorted(kept)
    assert thin(run[:100], 100) == run[:100]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.69124, "0.6912"), (1e-6, "1e-06"), (12_340, "12,340"), (-2.5, "−2.5")],
)
def test_numbers(value, text):
    assert format_number(value) == text
