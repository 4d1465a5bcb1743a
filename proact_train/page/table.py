"""Tables whose numbers may carry a bar or an interval beside them."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from .render import render_fragment


@dataclass(frozen=True)
class Bar:
    """A bar from 0; `share` of the full width, cut to [0, 1]."""

    share: float

    @property
    def width(self) -> float:
        return round(100 * min(1.0, max(0.0, self.share)), 2)


@dataclass(frozen=True)
class Cell:
    """A table cell.

    Attributes:
        note: small print under the text, such as `n = 30`.
        bar: drawn under the text.
    """

    text: str
    note: str = ""
    bar: Bar | None = None


@dataclass(frozen=True)
class Row:
    """A row; an aside (a control, a baseline) is set apart from the rows above it."""

    name: str
    cells: tuple[Cell, ...]
    note: str = ""
    is_aside: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a caption that says what its numbers are.

    Attributes:
        header: of all columns, the rows' names included.
        text_columns: columns whose cells are sentences (counted without the rows' names).
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    text_columns: frozenset[int] = frozenset()


def render_table(table: Table) -> Markup:
    """A table; a wide one scrolls in its own box."""
    for row in table.rows:
        assert len(row.cells) == len(table.header) - 1, f"{row.name}: a cell for each column"
    return render_fragment("table.html.j2", table=table)


def count(number: int, singular: str, plural: str | None = None) -> str:
    """`1 stream`, `2 streams`, `10,285 streams`."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:,} {noun}"
