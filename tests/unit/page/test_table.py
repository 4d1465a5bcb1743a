"""Tables: bars, asides, a cell for each column."""

from __future__ import annotations

import pytest

from proact_train.page.table import Bar, Cell, Row, Table, count, render_table


@pytest.mark.parametrize(("share", "width"), [(0.5, 50.0), (0.0, 0.0), (1.7, 100.0), (-1.0, 0.0)])
def test_a_bar_stays_in_its_rail(share, width):
    assert Bar(share).width == width


def test_rows_bars_and_asides():
    rows = (
        Row("after SFT", (Cell("87.0", "n = 10", Bar(0.87)),)),
        Row("control", (Cell("–"),), is_aside=True),
    )
    html = render_table(Table("F1", ("", "object"), rows))
    assert html.count("<tr") == 3
    assert html.count('class="aside"') == 1
    assert html.count("<svg") == 1
    assert 'width="87.0"' in html
    assert "n = 10" in html


def test_a_missing_cell_is_a_bug():
    with pytest.raises(AssertionError, match="a cell for each column"):
        render_table(Table("F1", ("", "object", "action"), (Row("a", (Cell("1"),)),)))


def test_an_empty_table_renders():
    assert "<caption>F1</caption>" in render_table(Table("F1", ("",), ()))


def test_counts_have_their_plural():
    assert (count(1, "stream"), count(0, "stream")) == ("1 stream", "0 streams")
    assert count(10_285, "reply", "replies") == "10,285 replies"
