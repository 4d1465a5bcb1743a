"""What gives a semantic score. The interface lives here; the embedded judge is `similarity.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

# The scale of semantic similarity (paper eq. 2): 1 = other meaning … 4 = same meaning.
LOWEST_SCORE, HIGHEST_SCORE = 1, 4

Score = int | None


class Judge(Protocol):
    """Scores how close a text comes to its gold text.

    Attributes:
        name: how logs and reports call it, such as "similarity" or a served model's name.
    """

    name: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """Scores a batch.

        Args:
            pairs: (model text, gold text), in this order.

        Returns:
            One score a pair, 1 to 4; None where no score could be had (unscored, never 0). An
            outage is a None, not an exception, so that it neither ends a run nor poisons it.
        """
        ...
