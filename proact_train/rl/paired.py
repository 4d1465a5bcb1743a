"""Statistics of a measurement before and after on the same decisions. No torch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from .rows import Row


@dataclass(frozen=True)
class PairedDifference:
    """A mean over decisions, before and after, and how sure the difference is.

    Attributes:
        standard_error: of the mean difference, decisions taken as independent.
        standard_error_by_stream: the same with a stream's decisions as one cluster, since
            neighbouring frames look alike; NaN is written as None where there is one stream only.
        n: decisions with a score on both sides.
        unscored: decisions without.
    """

    before: float
    after: float
    difference: float
    standard_error: float | None
    standard_error_by_stream: float | None
    n: int
    unscored: int


def paired_difference(
    before: Sequence[float | None], after: Sequence[float | None], streams: Sequence[str]
) -> PairedDifference | None:
    """Compares two measurements of the same decisions; None where no decision has both.

    Args:
        before: a value for each decision, None if unscored.
        after: the same decisions in the same order.
        streams: the stream of each decision.
    """
    assert len(before) == len(after) == len(streams)
    pairs = [
        (old, new, stream)
        for old, new, stream in zip(before, after, streams, strict=True)
        if old is not None and new is not None
    ]
    if not pairs:
        return None
    differences = [new - old for old, new, _ in pairs]
    return PairedDifference(
        before=fmean(old for old, _, _ in pairs),
        after=fmean(new for _, new, _ in pairs),
        difference=fmean(differences),
        standard_error=clustered_standard_error(differences, list(range(len(pairs)))),
        standard_error_by_stream=clustered_standard_error(
            differences, [stream for _, _, stream in pairs]
        ),
        n=len(pairs),
        unscored=len(before) - len(pairs),
    )


def clustered_standard_error(values: Sequence[float], clusters: Sequence[object]) -> float | None:
    """Standard error of a mean whose summands are independent between clusters only.

    `sqrt(C / (C - 1) * sum_c (sum_{i in c} (x_i - mean))^2) / n`; with one value a cluster it is
    the usual `std / sqrt(n)`. None with fewer than two clusters.
    """
    sums, mean = defaultdict[object, float](float), fmean(values)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - mean
    num_clusters = len(sums)
    if num_clusters < 2:
        return None
    squares = sum(total**2 for total in sums.values())
    return math.sqrt(num_clusters / (num_clusters - 1) * squares) / len(values)


def decision_means(
    groups: Sequence[Sequence[Row]], value: Callable[[Row], float | None]
) -> list[float | None]:
    """The mean of each decision's scored completions, None where none is scored."""
    means: list[float | None] = []
    for group in groups:
        known = [number for row in group if (number := value(row)) is not None]
        means.append(fmean(known) if known else None)
    return means
