"""Tests over tables of cheap rows: one test for all rows, which names every row that fails."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

_LABEL_CHARACTERS_MAX = 200
_Param = type(pytest.param())
_FAILURES = (Exception, SystemExit, pytest.fail.Exception)
"""What fails a test: argparse exits, and `pytest.raises` raises the last one."""


class Row(NamedTuple):
    """A row: what it is called, and the arguments that a test gets of it."""

    label: str
    arguments: dict[str, Any]


def each_row(names: str | tuple[str, ...], values: Iterable[Any], ids: Any = None) -> Any:
    """Call a test with each row of a table, as `pytest.mark.parametrize` does, but as one test.

    All rows get the same fixtures, so a row must not change what another one needs. Rows that fail
    are reported as subtests, and the rest is still tried. Two tables are combined.

    Args:
        names: the arguments that a row has values of; a text if it is one.
        values: the rows: values if there is one name, otherwise tuples, or `pytest.param`.
        ids: the rows' labels, or a function that makes one of each value.
    """
    names = (names,) if isinstance(names, str) else names
    table = list(_table(names, values, ids))
    assert table

    def folded(test: Callable[..., None]) -> Callable[..., None]:
        body, others = getattr(test, "folded", (test, [Row("", {})]))
        combined = [
            Row(f"{row.label} {other.label}".rstrip(), row.arguments | other.arguments)
            for row, other in product(table, others)
        ]

        @functools.wraps(test)
        def try_all(*args: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
            __tracebackhide__ = True
            for number, row in enumerate(combined, 1):
                try:
                    body(*args, **fixtures, **row.arguments)
                except _FAILURES as failure:
                    # PERF: a subtest takes a millisecond, so a row that passes is none.
                    with subtests.test(f"row {number}: {row.label}"):
                        raise failure

        try_all.folded = body, combined  # type: ignore[attr-defined]
        try_all.__signature__ = _without(names, test)  # type: ignore[attr-defined]
        return try_all

    return folded


def _table(names: tuple[str, ...], values: Iterable[Any], ids: Any) -> Iterator[Row]:
    labels = None if ids is None or callable(ids) else list(ids)
    for number, value in enumerate(values):
        label = labels[number] if labels else None
        if isinstance(value, _Param):
            assert not value.marks
            label, value = value.id or label, value.values
        elif len(names) == 1:
            value = (value,)
        if label is None:
            label = " ".join(map(ids or repr, value))
        yield Row(label[:_LABEL_CHARACTERS_MAX], dict(zip(names, value, strict=True)))


def _without(names: tuple[str, ...], test: Callable[..., None]) -> inspect.Signature:
    """Return the arguments that pytest provides: those of the test without the row's."""
    arguments = dict(inspect.signature(test).parameters)
    for name in names:
        del arguments[name]
    arguments["subtests"] = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
    return inspect.Signature(list(arguments.values()))
