"""The paired measurement: values by hand."""

import math
from statistics import stdev

import pytest

from proact_train.rl.paired import clustered_standard_error, paired_difference


def test_a_difference_by_hand():
    result = paired_difference([1.0, 2.0, 3.0, None], [2.0, 2.0, 5.0, 9.0], ["a", "a", "b", "b"])
    assert result is not None
    assert (result.before, result.after, result.difference) == (2.0, 3.0, 1.0)
    assert (result.n, result.unscored) == (3, 1)
    assert result.standard_error == pytest.approx(1 / math.sqrt(3))  # std of 1, 0, 2 is 1
    # Cluster sums of the deviations 0, -1 | 1: -1 and 1; sqrt(2 / 1 * 2) / 3.
    assert result.standard_error_by_stream == pytest.approx(2 / 3)


def test_single_clusters_give_the_usual_standard_error():
    values = [0.3, 1.2, -0.7, 2.2, 0.1]
    usual = stdev(values) / math.sqrt(len(values))
    assert clustered_standard_error(values, range(5)) == pytest.approx(usual)


def test_one_stream_has_no_standard_error():
    result = paired_difference([1.0, 2.0], [2.0, 2.0], ["a", "a"])
    assert result is not None
    assert result.standard_error_by_stream is None


def test_nothing_scored_is_no_difference():
    assert paired_difference([None], [1.0], ["a"]) is None
    assert paired_difference([], [], []) is None
