"""Worker processes give what one process gives: results in order, and an error when its turn comes."""

import os
from collections.abc import Callable, Iterator

import pytest

from cgipool.errors import UserError
from cgipool.processes import in_order


def inverse(number: int) -> float:
    if number < 0:
        os._exit(1)
    return 1 / number


def make() -> Callable[[int], float]:
    return inverse


def refuse() -> Callable[[int], float]:
    raise UserError("not today")


def items(*numbers: int, error: Exception | None = None) -> Iterator[int]:
    yield from numbers
    if error is not None:
        raise error


def test_results_come_in_order_and_errors_in_their_turn() -> None:
    found = in_order(make, items(4, 2, 1, 0, 5, error=UserError("later")), 2)
    assert [next(found) for _ in range(3)] == [0.25, 0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_an_error_of_the_items_comes_after_their_results() -> None:
    seen = []
    with pytest.raises(UserError, match="unreadable"):
        seen.extend(in_order(make, items(1, 2, error=UserError("unreadable")), 2))
    found = in_order(make, items(1, 2, error=UserError("unreadable")), 1)
    assert [next(found), next(found)] == [1.0, 0.5]


def test_a_worker_that_fails_is_one_line() -> None:
    with pytest.raises(UserError, match="not today"):
        list(in_order(refuse, items(1), 1))
    with pytest.raises(UserError, match="worker process ended"):
        list(in_order(make, items(-1), 1))
