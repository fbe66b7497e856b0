"""The page of usage: answers by account, key, day and operation, and their CSV file (D137)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import falcon

from app import clock
from app.accounts.models import Account, ApiKey
from app.accounts.states import status_of_key
from app.accounts.usage.lines import csv_lines
from app.accounts.usage.models import CLASSES, UsageAccount
from app.accounts.usage.report import By, Used, usage_of_days
from app.accounts.usage.store import KEPT_DAYS
from app.accounts.usage.writer import INTERVAL_SECONDS
from app.console.context import ConsoleRequest, Services
from app.console.keys import find_key
from app.console.listing import Listing
from app.console.rendering import redirect
from app.console.usage_charts import UsageChart, chart_of_days
from app.console.usage_question import (
    CHOICES,
    FILTERS,
    Question,
    month_after,
    month_before,
    question,
)
from app.redaction import KEY_PREFIX
from app.storage.engine import Engine

_NAMES_MAX = 500
"""So many names the field of the account suggests."""
_COLUMNS: Mapping[str, Callable[[Used], Any]] = {
    "account": lambda used: used.account or "",
    "key": lambda used: used.key,
    "day": lambda used: used.day,
    "operation": lambda used: used.operation,
    "answers": lambda used: used.answers,
    "2xx": lambda used: used.by_class[0],
    "4xx": lambda used: used.by_class[1],
    "429": lambda used: used.by_class[2],
    "5xx": lambda used: used.by_class[3],
    "vehicles": lambda used: used.vehicles,
}


class KnownKey(NamedTuple):
    """What is known of a key that still exists."""

    label: str
    status: str


class UsagePage:
    """What accounts have used in a month, or on some days."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/usage.

        Parameters: `account` (a name, also of a deleted one), `key` (an id), `month`, or `from`
        and `to`, `by`, `sort`, `page`, and `as=csv` for a file.
        """
        engine, config, _, pages, _ = self._services
        today = clock.today(config.timezone)
        asked = question(req, engine, today)
        if KEY_PREFIX in asked.given["account"] + asked.given["key"]:
            # SEC: no link of the page may hold a key.
            redirect(req, resp, "keys", "find")
            return
        listing = _listing(req, asked)
        values: dict[str, object] = {}
        if asked.faults:
            resp.status = falcon.HTTP_422
        else:
            used = usage_of_days(engine, *asked.period, asked.groups, asked.whose)
            if req.get_param("as") == "csv":
                _send_csv(resp, asked, used)
                return
            values = _shown(engine, asked, listing, used)
        pages.send(
            req,
            resp,
            "usage.html",
            asked=asked,
            listing=listing,
            choices=CHOICES,
            classes=CLASSES,
            names=_names(engine),
            before=month_before(asked.period, today),
            after=month_after(asked.period, today),
            zone=str(config.timezone),
            seconds=INTERVAL_SECONDS,
            days_kept=KEPT_DAYS,
            **values,
        )

    on_head = on_get


def _listing(req: ConsoleRequest, asked: Question) -> Listing:
    """Return the table: the latest day first, otherwise what was used most."""
    columns = {
        name: value
        for name, value in _COLUMNS.items()
        if name not in CHOICES or name in asked.groups
    }
    default = "-day" if asked.by is By.DAY else "-answers"
    return Listing(req, columns, filters=dict.fromkeys(FILTERS, ()), default=default)


def _shown(
    engine: Engine, asked: Question, listing: Listing, used: Sequence[Used]
) -> dict[str, object]:
    """Return what the page shows of the usage that was asked for."""
    rows = listing.part_of(used)
    accounts = _accounts(engine, rows)
    by_class = [sum(each.by_class[place] for each in used) for place in range(len(CLASSES))]
    return {
        "rows": rows,
        "has_any": bool(used) or UsageAccount.select().exists(engine),
        "accounts": accounts,
        "keys": _keys(engine, asked, rows),
        "shows_account": By.ACCOUNT in asked.groups and not _is_one_account(asked, used),
        "by_class": by_class,
        "answers": sum(by_class),
        "vehicles": sum(each.vehicles for each in used),
        "chart": _chart(engine, asked, used),
        "subject": _subject(engine, asked),
    }


def _is_one_account(asked: Question, used: Iterable[Used]) -> bool:
    """Tell whether the column of the account would say in each line what the heading says."""
    is_known = asked.is_narrow and asked.by is not By.ACCOUNT
    return is_known and len({each.account_id for each in used}) == 1


def _chart(engine: Engine, asked: Question, used: Sequence[Used]) -> UsageChart:
    if used and asked.by is not By.DAY:
        used = usage_of_days(engine, *asked.period, (By.DAY,), asked.whose)
    return chart_of_days(used, asked.period)


def _accounts(engine: Engine, rows: Iterable[Used]) -> Mapping[int, str]:
    """Return the tags of the accounts that still exist, by their numbers."""
    numbers = {each.account_id for each in rows} - {None}
    query = Account.select(Account.id, Account.tag).where(Account.id.in_(numbers))
    return dict(query.tuples().execute(engine))


def _keys(engine: Engine, asked: Question, rows: Iterable[Used]) -> Mapping[str, KnownKey]:
    """Return the keys that still exist, by their ids."""
    if asked.by is not By.KEY:
        return {}
    ids = {each.key for each in rows}
    query = ApiKey.select(ApiKey, Account).join(Account).where(ApiKey.id.in_(ids))
    return {key.id: KnownKey(key.label, status_of_key(key)) for key in query.execute(engine)}


def _subject(engine: Engine, asked: Question) -> Account | ApiKey | None:
    """Return the account or the key that the page is about; None if it does not exist any more."""
    if asked.given["key"]:
        return find_key(engine, asked.given["key"])
    if not asked.given["account"]:
        return None
    account: Account | None = (
        Account.select().where(Account.name == asked.given["account"]).first(engine)
    )
    return account


def _names(engine: Engine) -> list[str]:
    """Return names of accounts with usage, to choose from."""
    query = UsageAccount.select(UsageAccount.name).distinct().order_by(UsageAccount.name)
    return [name for (name,) in query.limit(_NAMES_MAX).tuples().execute(engine)]


def _send_csv(resp: falcon.Response, asked: Question, used: Sequence[Used]) -> None:
    """Answer with a file like that of `verifyd usage --csv`, in the same order.

    It begins with a byte order mark, without which Excel misreads letters outside of ASCII.
    """
    resp.content_type = "text/csv; charset=utf-8"
    resp.downloadable_as = f"usage-{str(asked.period).replace(' ', '-')}.csv"
    resp.data = "".join(csv_lines(used, asked.groups)).encode("utf-8-sig")
