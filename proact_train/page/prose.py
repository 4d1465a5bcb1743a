"""Paragraphs, notes on what is missing, and commands."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from .render import render_fragment


def render_paragraph(text: str) -> Markup:
    """A paragraph of plain text."""
    return render_fragment("prose.html.j2", text=text, style="plain")


def render_heading(text: str) -> Markup:
    """A heading inside a section."""
    return render_fragment("prose.html.j2", text=text, style="heading")


def render_missing(what: str, path: str) -> Markup:
    """Says that something is not shown, and which file would have held it."""
    text = f"{what}: not shown, because {path} is missing."
    return render_fragment("prose.html.j2", text=text, style="missing")


def render_commands(lines: Sequence[str]) -> Markup:
    """Shell commands; a long one scrolls in its own box."""
    return render_fragment("prose.html.j2", text="\n".join(lines), style="commands")


def render_grid(parts: Sequence[str]) -> Markup:
    """Sets parts side by side where the page is wide enough."""
    return render_fragment("grid.html.j2", parts=parts)


def render_fold(summary: str, parts: Sequence[str]) -> Markup:
    """Parts that show when the reader opens them."""
    return render_fragment("fold.html.j2", summary=summary, parts=parts)
