"""Model text is text: in paragraphs, cells, attributes and SVG, and the page loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from proact_train.page.curves import Chart, Series, render_chart
from proact_train.page.prose import render_commands, render_fold, render_missing, render_paragraph
from proact_train.page.render import Section, render_fragment, render_page
from proact_train.page.table import Cell, Row, Table, render_table
from proact_train.page.timeline import Lane, LaneCell, Strip, StripFrame, render_strip

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;"


class Elements(HTMLParser):
    """Every element and attribute of a page, and its text."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_parts() -> list[str]:
    cell = LaneCell("reply", "hit", HOSTILE, HOSTILE)
    frames = (StripFrame(0.0, True, HOSTILE),)
    lanes = (Lane(HOSTILE, (cell,), HOSTILE),)
    strip = Strip(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, frames, lanes)
    row = Row(HOSTILE, (Cell(HOSTILE, HOSTILE),), HOSTILE)
    series = Series(HOSTILE, ((0.0, 1.0), (1.0, 2.0)))
    return [
        HOSTILE,
        render_strip(strip),
        render_table(Table(HOSTILE, (HOSTILE, HOSTILE), (row,))),
        render_chart(Chart(HOSTILE, (series,), HOSTILE, HOSTILE, HOSTILE)),
        render_paragraph(HOSTILE),
        render_missing(HOSTILE, HOSTILE),
        render_commands([HOSTILE]),
        render_fold(HOSTILE, [HOSTILE]),
    ]


@pytest.mark.parametrize("idx", range(len(hostile_parts())))
def test_hostile_text_stays_text_in_every_part(idx):
    page = render_page("t", "i", [Section("s", "", (hostile_parts()[idx],))])
    elements = Elements(page)
    assert "script" not in elements.tags
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert HOSTILE in elements.text


def test_hostile_heading_facts_and_sections():
    page = render_page(HOSTILE, HOSTILE, [Section(HOSTILE, HOSTILE)] * 2, [(HOSTILE, HOSTILE)])
    elements = Elements(page)
    assert "script" not in elements.tags
    assert "img" not in elements.tags
    # title, h1, intro, fact name and value, two links, two headings, two introductions
    assert elements.text.count(HOSTILE) == 11


def test_hostile_text_in_attributes_keeps_its_quotes():
    labels = [
        value for name, value in Elements(hostile_parts()[1]).attributes if name[:4] == "aria"
    ]
    assert f"Timeline of {HOSTILE}" in labels
    labels = [
        value for name, value in Elements(hostile_parts()[3]).attributes if name[:4] == "aria"
    ]
    assert f"{HOSTILE}: {HOSTILE} by {HOSTILE}" in labels


def test_the_policy_allows_the_stylesheet_and_nothing_from_outside():
    page = render_page("t", "i", [Section("s", "", tuple(hostile_parts()))])
    elements = Elements(page)
    policy = next(v for _, v in elements.attributes if v and v.startswith("default-src"))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "style" not in [name for name, _ in elements.attributes]
    links = [v for name, v in elements.attributes if name in ("src", "href", "xlink:href")]
    assert all(value is not None and value.startswith(("#", "data:")) for value in links)
    assert "url(" not in style
    assert "@import" not in style


def test_lone_surrogates_become_question_marks():
    page = render_page("t", "a\ud800b", [])
    assert "a?b" in page
    page.encode("utf-8")


def test_a_value_that_a_template_lacks_is_an_error():
    with pytest.raises(UndefinedError):
        render_fragment("prose.html.j2", style="plain")
