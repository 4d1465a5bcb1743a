"""What the five rewards are made of, on plain strings and numbers (paper eq. 1 to 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from cydifflib import SequenceMatcher  # pyright: ignore[reportAttributeAccessIssue]

from ..core.errors import RecipeError
from ..llm.judge import HIGHEST_SCORE, LOWEST_SCORE

CountLength = Callable[[str], int]
LengthUnit = Literal["tokens", "words", "characters"]


def sim_text(text: str, gold: str) -> float:
    """Textual similarity `2M / (|text| + |gold|)` in [0, 1] (paper eq. 1); 1 for two empty strings.

    M is the number of characters that Ratcliff-Obershelp matches. The order matters ("tide" against
    "diet" is .25, "diet" against "tide" .50): the model's text comes first. difflib's heuristic for
    long strings (`autojunk`) is off; it would call near-equal texts of 200 characters unrelated.
    """
    return SequenceMatcher(None, text, gold, autojunk=False).ratio()


def sim_sem(score: int) -> float:
    """Semantic similarity `(score - 1) / 3` of a judge's score, 1 to 4 (paper eq. 2)."""
    assert LOWEST_SCORE <= score <= HIGHEST_SCORE, f"a judge's score of {score}"
    return (score - LOWEST_SCORE) / (HIGHEST_SCORE - LOWEST_SCORE)


def decay(length: float, low: float, high: float) -> float:
    """1 up to `low`, falling linearly to 0 at `high`, 0 beyond (paper eq. 3)."""
    assert low < high, f"decay from {low} to {high}"
    return 1.0 - min(1.0, max(0.0, (length - low) / (high - low)))


def build_length_counter(unit: LengthUnit, count_tokens: CountLength | None = None) -> CountLength:
    """What counts a text's length. The paper does not name the unit; `tokens` is the default.

    Args:
        unit: the recipe's `length_unit`.
        count_tokens: counts tokens of the policy's tokenizer, without special tokens; for `tokens`.

    Raises:
        RecipeError: an unknown unit.
    """
    if unit == "tokens":
        assert count_tokens is not None, "length_unit tokens needs the policy's tokenizer"
        return count_tokens
    if unit == "words":
        return lambda text: len(text.split())
    if unit == "characters":
        return len
    raise RecipeError(
        "length_unit", repr(unit), "tokens, words or characters", "Choose one of the three."
    )
