"""Lists that are sorted, filtered and divided into pages by their URL, so that links can be kept.

A URL with an unknown order shows the default order, and one with a page too many the last page.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar
from urllib.parse import urlencode

import falcon
import peewee

from app import clock
from app.storage.engine import Engine

ROWS_PER_PAGE = 50
_PAGE_DIGITS_MAX = 9
# The names of domains, which actions can have as subjects, are the longest.
_FILTER_CHARACTERS_MAX = 255
Permitted = Sequence[str] | Callable[[str], bool]
"""The values that a filter can have; empty for any text. Or a function that checks a value."""
Condition = Callable[[str], peewee.Expression]
"""Takes the value of a filter, and returns the condition that rows must fulfil."""
_Item = TypeVar("_Item")


class Listing:
    """The order, filters and page in the URL of a list, and the links to other rows or orders.

    Args:
        columns: the column or expression to sort by, for each name that `sort` can have. The first
            one is the default. For items that are no rows, a function of the item.
        unique: a unique column, by which rows are sorted that are equal otherwise.
        filters: the parameters, and the values that each can have.
        default: the order without `sort`, such as `-created`; by default the first column.
    """

    def __init__(
        self,
        req: falcon.Request,
        columns: Mapping[str, Any],
        unique: Any = None,
        filters: Mapping[str, Permitted] | None = None,
        default: str | None = None,
    ) -> None:
        self._columns = columns
        self._unique = unique
        self._default = default or next(iter(columns))
        asked = _single(req.params, "sort")
        if asked.removeprefix("-") not in columns:
            asked = self._default
        self.is_descending = asked.startswith("-")
        self.sort = asked.removeprefix("-")
        page = _single(req.params, "page")
        is_number = page.isascii() and page.isdigit() and len(page) <= _PAGE_DIGITS_MAX
        self.page = max(1, int(page)) if is_number else 1
        self.permitted = filters or {}
        self.filters = {
            name: _permitted(_single(req.params, name), values)
            for name, values in self.permitted.items()
        }
        self.total = 0

    @property
    def is_filtered(self) -> bool:
        """Whether a filter hides rows."""
        return any(self.filters.values())

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.total // ROWS_PER_PAGE))

    @property
    def first(self) -> int:
        """The number of the first row on this page."""
        return (self.page - 1) * ROWS_PER_PAGE + 1

    @property
    def last(self) -> int:
        """The number of the last row on this page."""
        return min(self.page * ROWS_PER_PAGE, self.total)

    def rows(
        self,
        query: "peewee.ModelSelect[Any]",
        engine: Engine,
        conditions: Mapping[str, Condition] | None = None,
    ) -> list[Any]:
        """Return the rows of this page.

        Args:
            query: selects the rows of all pages, without an order.
            conditions: for each filter that the query does not apply itself.
        """
        for name, condition in (conditions or {}).items():
            if self.filters[name]:
                query = query.where(condition(self.filters[name]))
        self.total = query.count(engine)
        self.page = min(self.page, self.pages)
        column = self._columns[self.sort]
        order = column.desc() if self.is_descending else column.asc()
        chosen = query.order_by(order, self._unique).paginate(self.page, ROWS_PER_PAGE)
        return list(chosen.execute(engine))

    def part_of(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items of this page, as `rows` does for rows. Equal ones keep their order."""
        self.total = len(items)
        self.page = min(self.page, self.pages)
        ordered = sorted(items, key=self._columns[self.sort], reverse=self.is_descending)
        return ordered[self.first - 1 : self.last]

    def order_of(self, name: str) -> str:
        """Return `ascending`, `descending` or `none`, for the heading of a column."""
        if name != self.sort:
            return "none"
        return "descending" if self.is_descending else "ascending"

    def sorted_by(self, name: str) -> str:
        """Return the link that sorts by a column, or reverses the order of that column."""
        is_turned = name == self.sort and not self.is_descending
        return self._link(f"-{name}" if is_turned else name, 1)

    def at(self, page: int) -> str:
        """Return the link to another page of the same list."""
        return self._link(f"-{self.sort}" if self.is_descending else self.sort, page)

    def _link(self, sort: str, page: int) -> str:
        given = {name: value for name, value in self.filters.items() if value}
        if sort != self._default:
            given["sort"] = sort
        if page > 1:
            given["page"] = str(page)
        return f"?{urlencode(given)}"


def is_day(text: str) -> bool:
    """Tell whether the value of a filter is a day that a next day follows."""
    return clock.parse_iso_date(text) not in (None, date.max)


def _single(params: Mapping[str, object], name: str) -> str:
    """Return a parameter of the URL; empty if it is missing or given twice."""
    value = params.get(name, "")
    return value if isinstance(value, str) else ""


def _permitted(text: str, permitted: Permitted) -> str:
    text = text.strip()[:_FILTER_CHARACTERS_MAX]
    is_one = permitted(text) if callable(permitted) else not permitted or text in permitted
    return text if is_one and text.isprintable() else ""
