"""The page of usage: answers by account, key, day and operation, and their CSV file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from operator import attrgetter
from typing import NamedTuple
from urllib.parse import urlencode

import falcon

from app import clock
from app.accounts.administration import find_key
from app.accounts.models import NAME_CHARACTERS_MAX, Account, ApiKey
from app.accounts.tokens import KEY_ID_CHARACTERS, is_key_id
from app.accounts.usage.counts import CONSOLE, PEOPLE
from app.accounts.usage.report import (
    DAYS_MAX,
    By,
    Period,
    Used,
    Whose,
    csv_lines,
    has_more_rows,
    is_known,
    month_of,
    parse_month,
    period,
    usage_of_days,
)
from app.accounts.usage.store import CLASSES, KEPT_DAYS, UsageAccount
from app.console.charts import UsageChart, chart_of_days
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, redirect, send_csv, view
from app.errors import KEY_PREFIX
from app.storage.engine import Engine

FILTERS = ("account", "key", "month", "from", "to", "by")
ROWS_MAX = 500_000
"""The most rows that a page adds up. PERF: the chart and the table take 0.2 s each for them, and
look-ups of this worker wait."""
CHOICES = (By.ACCOUNT, By.KEY, By.DAY, By.OPERATION)


class UsageQuery(NamedTuple):
    """The question of the URL: whose usage, of which days, and grouped by what."""

    given: Mapping[str, str]
    """The filters as the URL has them; empty ones are absent."""
    whose: Whose
    period: Period
    by: By
    faults: list[str]
    """Sentences about mistakes in the URL. If there are any, nothing must be shown."""

    @property
    def is_narrow(self) -> bool:
        """Whether only one account or one key is asked for."""
        return bool(self.given["account"] or self.given["key"])

    @property
    def groups(self) -> tuple[By, ...]:
        """What to group by.

        A deleted account can have had the same name as another one: their usage is kept apart.
        """
        has_account = self.is_narrow or self.by in (By.ACCOUNT, By.KEY)
        return tuple(dict.fromkeys((By.ACCOUNT, self.by) if has_account else (self.by,)))

    def link(self, **changes: str | None) -> str:
        """Return the link to the same page with other filters; empty ones are omitted."""
        wanted = {**self.given, **changes}
        return f"?{urlencode({name: value for name, value in wanted.items() if value})}"


def read_query(req: falcon.Request, engine: Engine, today: date) -> UsageQuery:
    """Return the question of a request; by default the usage of all accounts this month."""
    faults: list[str] = []
    given = {name: _text(req, name, faults) for name in FILTERS}
    by = By.DAY if given["account"] or given["key"] else By.ACCOUNT
    if given["by"] in CHOICES:
        by = By(given["by"])
    elif given["by"]:
        faults.append("Usage can be added up by account, key, day or operation.")
    whose, asked = _whose(given, engine, faults), _period(given, today, faults)
    if not faults and has_more_rows(engine, *asked, whose, ROWS_MAX):
        faults.append(
            "These days have too much usage for one page. Choose fewer days, or one account. "
            "On the host, “verifyd usage” adds up a month of any size."
        )
    return UsageQuery(given, whose, asked, by, faults)


def month_before(asked: Period, today: date) -> str | None:
    """Return the month before these days as YYYY-MM, None if its usage is not kept."""
    first_kept = today - timedelta(days=KEPT_DAYS)
    if asked.first.replace(day=1) <= first_kept:
        return None
    return str(month_of(asked.first.replace(day=1) - timedelta(days=1)))


def month_after(asked: Period, today: date) -> str | None:
    """Return the month after these days as YYYY-MM, None if that has not begun."""
    last = month_of(asked.last).last
    return str(month_of(last + timedelta(days=1))) if last < today else None


def _text(req: falcon.Request, name: str, faults: list[str]) -> str:
    """Return a filter; empty if the filter is absent or cannot be read."""
    value = req.params.get(name, "")
    text = value.strip() if isinstance(value, str) else "\n"
    if text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return text
    faults.append(f"The filter “{name}” is given twice, is too long, or has control characters.")
    return ""


def _whose(given: Mapping[str, str], engine: Engine, faults: list[str]) -> Whose:
    account, key_id = given["account"], given["key"]
    named = Account.select().where(Account.name == account)
    if account and not (is_known(engine, account) or named.exists(engine)):
        faults.append(
            f"No account is named “{account}”, and none that was deleted in the last {KEPT_DAYS} "
            "days was."
        )
    if key_id and not is_key_id(key_id):
        faults.append(f"The id of a key has {KEY_ID_CHARACTERS} letters and digits.")
        return Whose()
    # PERF: with the number of its account, the database reads only rows of that one. A key that
    # was deleted with its account may still have usage.
    key = find_key(engine, key_id) if key_id else None
    return Whose(key.account.id if key else None, account or None, key_id or None)


def _period(given: Mapping[str, str], today: date, faults: list[str]) -> Period:
    """Return the days that were asked for; the current month if they are wrong."""
    this_month = month_of(today)
    if given["month"]:
        month = parse_month(given["month"])
        if month is None:
            faults.append(f"The month {clock.month_fault(given['month'])}.")
        if given["from"] or given["to"]:
            faults.append("Choose either a month, or the first and the last day.")
        return month or this_month
    days = {name: clock.parse_iso_date(given[name]) for name in ("from", "to")}
    for name, title in (("from", "The first day"), ("to", "The last day")):
        if given[name] and days[name] is None:
            faults.append(f"{title} {clock.day_fault(given[name])}.")
    if days["from"] is None and days["to"] is None:
        return this_month
    asked = period(days["from"], days["to"], today)
    if asked.days < 1:
        faults.append(f"The first day, {asked.first}, is after the last one, {asked.last}.")
    elif asked.days > DAYS_MAX:
        faults.append(f"At most {DAYS_MAX} days can be shown at once; these are {asked.days:,}.")
    return asked


_NAMES_MAX = 500
"""So many names the field of the account suggests."""
_COLUMNS: Mapping[str, Callable[[Used], object]] = {
    "account": lambda used: used.account or "",
    **{
        name: attrgetter(name)
        for name in ("key", "day", "operation", "answers", "vehicles", "events")
    },
    "2xx": lambda used: used.by_class[0],
    "4xx": lambda used: used.by_class[1],
    "429": lambda used: used.by_class[2],
    "5xx": lambda used: used.by_class[3],
}


class UsagePage(Resource):
    """The usage of accounts in a month, or on some days."""

    @view("usage.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values | None:
        """GET /console/usage.

        Parameters: `account` (a name, also of a deleted one), `key` (an id), `month`, or `from`
        and `to`, `by`, `sort`, `page`, and `as=csv` for a file.
        """
        engine, zone = self.engine, self.config.timezone
        today = clock.today(zone)
        asked = read_query(req, engine, today)
        if KEY_PREFIX in asked.given["account"] + asked.given["key"]:
            # SEC: no link of the page may hold a key.
            redirect(req, resp, "keys", "find")
            return None
        listing = _listing(req, asked)
        values: Values = {}
        if asked.faults:
            # Wrong filters are no absent ones, as in other lists: somebody writes bills with this
            # page.
            resp.status = falcon.HTTP_422
        else:
            used = usage_of_days(engine, *asked.period, asked.groups, asked.whose)
            if req.get_param("as") == "csv":
                # The lines and their order are those of `verifyd usage --csv`.
                name = f"usage-{str(asked.period).replace(' ', '-')}"
                send_csv(resp, name, csv_lines(used, asked.groups))
                return None
            values = _shown(engine, asked, listing, used)
        return {
            "asked": asked,
            "listing": listing,
            "choices": CHOICES,
            "names": _names(engine),
            "before": month_before(asked.period, today),
            "after": month_after(asked.period, today),
            "zone": str(zone),
            "is_people": asked.given["account"] == CONSOLE,
            **values,
        }


def _listing(req: ConsoleRequest, asked: UsageQuery) -> Listing:
    """Return the table: the latest day first, otherwise what was used most."""
    columns = {
        name: value
        for name, value in _COLUMNS.items()
        if name not in CHOICES or name in asked.groups
    }
    default = "-day" if asked.by is By.DAY else "-answers"
    return Listing(req, columns, filters=dict.fromkeys(FILTERS, ()), default=default)


def _shown(engine: Engine, asked: UsageQuery, listing: Listing, used: Sequence[Used]) -> Values:
    """Return the values of the page for the usage that was asked for."""
    rows = listing.part_of(used)
    by_class = [sum(each.by_class[place] for each in used) for place in range(len(CLASSES))]
    return {
        "rows": rows,
        "has_any": bool(used) or UsageAccount.select().exists(engine),
        "accounts": _accounts(engine, rows),
        "keys": _keys(engine, asked, rows),
        "shows_account": By.ACCOUNT in asked.groups and not _is_one_account(asked, used),
        "by_class": by_class,
        "answers": sum(by_class),
        "vehicles": sum(each.vehicles for each in used),
        "events": sum(each.events for each in used),
        "chart": _chart(engine, asked, used),
        "subject": _subject(engine, asked),
    }


def _is_one_account(asked: UsageQuery, used: Iterable[Used]) -> bool:
    """Tell whether the column of the account would say in each line what the heading says."""
    if not asked.is_narrow or asked.by is By.ACCOUNT:
        return False
    return len({each.account_id for each in used}) == 1


def _chart(engine: Engine, asked: UsageQuery, used: Sequence[Used]) -> UsageChart:
    if used and asked.by is not By.DAY:
        used = usage_of_days(engine, *asked.period, (By.DAY,), asked.whose)
    return chart_of_days(used, asked.period)


def _accounts(engine: Engine, rows: Iterable[Used]) -> Mapping[int, str]:
    """Return the tags of the accounts that still exist, by their numbers; people have none."""
    numbers = {each.account_id for each in rows} - {None}
    query = Account.select(Account.id, Account.tag).where(Account.id.in_(numbers))
    return {PEOPLE.account_id: "", **dict(query.tuples().execute(engine))}


def _keys(engine: Engine, asked: UsageQuery, rows: Iterable[Used]) -> Mapping[str, ApiKey]:
    """Return the keys that still exist, by their ids."""
    if asked.by is not By.KEY:
        return {}
    ids = {each.key for each in rows}
    query = ApiKey.select(ApiKey, Account).join(Account).where(ApiKey.id.in_(ids))
    return {key.id: key for key in query.execute(engine)}


def _subject(engine: Engine, asked: UsageQuery) -> Account | ApiKey | None:
    """Return the account or key of the page; None if the account or key was deleted."""
    if asked.given["key"]:
        return find_key(engine, asked.given["key"])
    account: Account | None = None
    if asked.given["account"]:
        account = Account.select().where(Account.name == asked.given["account"]).first(engine)
    return account


def _names(engine: Engine) -> list[str]:
    """Return names of accounts with usage, to choose from."""
    query = UsageAccount.select(UsageAccount.name).distinct().order_by(UsageAccount.name)
    return [name for (name,) in query.limit(_NAMES_MAX).tuples().execute(engine)]
