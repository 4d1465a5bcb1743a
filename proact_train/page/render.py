"""A whole page: one file of HTML that asks nothing of the network and runs no script.

Texts are escaped by the templates: only a `Markup`, which the functions of this package return, is
taken as HTML. The content security policy allows the page's own stylesheet and pictures that stand
in it as `data:`, and nothing else, so that even a hole in the escaping could load or run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = "templates"


@dataclass(frozen=True)
class Section:
    """A part of the page under its own heading.

    Attributes:
        parts: what `render_chart`, `render_strip`, `render_table` and `prose` return; any other
            string is shown as a paragraph of text.
    """

    title: str
    intro: str = ""
    parts: tuple[str, ...] = ()


def render_page(
    title: str, intro: str, sections: Sequence[Section], facts: Sequence[tuple[str, str]] = ()
) -> str:
    """The page as HTML.

    Args:
        facts: (name, value) pairs that stand beside the heading, such as the machine.

    Returns:
        Text that encodes as UTF-8: lone surrogates in model text become question marks.
    """
    stylesheet = _stylesheet()
    html = render_fragment(
        "page.html.j2",
        title=title,
        intro=intro,
        facts=facts,
        sections=sections,
        stylesheet=Markup(stylesheet),
        policy=content_security_policy(stylesheet),
    )
    return html.encode("utf-8", "replace").decode("utf-8")


def render_fragment(template: str, **values: Any) -> Markup:
    """Fills a template of this package; every value that is not Markup is escaped."""
    return Markup(environment().get_template(template).render(values))


def content_security_policy(stylesheet: str) -> str:
    """The policy of a page with one inlined stylesheet, which is named by its hash."""
    digest = base64.b64encode(hashlib.sha256(stylesheet.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def environment() -> Environment:
    """The templates' environment: autoescape for every template, a missing value is an error."""
    return Environment(
        loader=PackageLoader(__package__ or "proact_train.page", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _stylesheet() -> str:
    folder = resources.files(__package__ or "proact_train.page") / _TEMPLATES
    stylesheet = (folder / "page.css").read_text(encoding="utf-8")
    assert "<" not in stylesheet, "the stylesheet stands in <style> as it is"
    return stylesheet
