"""Work on all cores: in order, and with the worker's own error."""

import os

import pytest

from data_builders.workers import map_on_cores
from proact_train.core.errors import DataError

MANY = list(range(200))


def double(value: int) -> tuple[int, int]:
    return 2 * value, os.getpid()


def refuse_150(value: int) -> int:
    if value == 150:
        raise DataError("item 150", "a bad item", "a good one", "Leave it out.")
    return value


@pytest.mark.parametrize("items", [MANY, MANY[:3], []])
def test_results_come_in_the_order_of_the_items(items: list[int]):
    assert [value for value, _ in map_on_cores(double, items, "t")] == [2 * i for i in items]


def test_many_items_are_spread_over_processes_and_few_are_not():
    pids = {pid for _, pid in map_on_cores(double, MANY, "t")}
    assert (os.getpid() not in pids) == ((os.cpu_count() or 1) > 1)
    assert {pid for _, pid in map_on_cores(double, MANY[:3], "t")} == {os.getpid()}


def test_a_workers_error_arrives_whole():
    with pytest.raises(DataError, match=r"item 150: found a bad item; expected a good one"):
        list(map_on_cores(refuse_150, MANY, "t"))
