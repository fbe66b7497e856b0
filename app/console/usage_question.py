"""What the URL of the usage page asks for (D137)."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

import falcon

from app import clock
from app.accounts.models import NAME_CHARACTERS_MAX, Account
from app.accounts.tokens import KEY_ID_CHARACTERS
from app.accounts.usage.period import DAYS_MAX, Period, month_of, parse_month, period
from app.accounts.usage.report import By, Whose, has_more_rows, is_known
from app.accounts.usage.store import KEPT_DAYS
from app.console.keys import find_key
from app.storage.engine import Engine

FILTERS = ("account", "key", "month", "from", "to", "by")
ROWS_MAX = 500_000
"""The most rows that a page adds up. PERF: the chart and the table take 0.2 s each for them, and
look-ups of this worker wait."""
CHOICES = (By.ACCOUNT, By.KEY, By.DAY, By.OPERATION)


class Question(NamedTuple):
    """Whose usage of which days is wanted, and how it is added up."""

    given: Mapping[str, str]
    """The filters as the URL has them; empty ones are absent."""
    whose: Whose
    period: Period
    by: By
    faults: list[str]
    """Sentences: what is wrong with the URL. If there are any, nothing must be shown."""

    @property
    def is_narrow(self) -> bool:
        """Whether it is about one account or one key."""
        return bool(self.given["account"] or self.given["key"])

    @property
    def groups(self) -> tuple[By, ...]:
        """What to group by.

        A deleted account can have had the same name as another one: their usage is kept apart.
        """
        has_account = self.is_narrow or self.by in (By.ACCOUNT, By.KEY)
        return tuple(dict.fromkeys((By.ACCOUNT, self.by) if has_account else (self.by,)))

    def link(self, **changes: str | None) -> str:
        """Return the link to the same with other filters; an empty one is left out."""
        wanted = {**self.given, **changes}
        return f"?{urlencode({name: value for name, value in wanted.items() if value})}"


def question(req: falcon.Request, engine: Engine, today: date) -> Question:
    """Return what a request asks for. By default it is the usage of all accounts this month."""
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
    return Question(given, whose, asked, by, faults)


def month_before(asked: Period, today: date) -> str | None:
    """Return the month before these days as YYYY-MM, None if it is not kept."""
    first_kept = today - timedelta(days=KEPT_DAYS)
    if asked.first.replace(day=1) <= first_kept:
        return None
    return str(month_of(asked.first.replace(day=1) - timedelta(days=1)))


def month_after(asked: Period, today: date) -> str | None:
    """Return the month after these days as YYYY-MM, None if it has not begun."""
    last = month_of(asked.last).last
    return str(month_of(last + timedelta(days=1))) if last < today else None


def _text(req: falcon.Request, name: str, faults: list[str]) -> str:
    """Return a filter; empty if it is absent or cannot be read."""
    value = req.params.get(name, "")
    text = value.strip() if isinstance(value, str) else "\n"
    if text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return text
    faults.append(f"The filter “{name}” is given twice, is too long, or has control characters.")
    return ""


def _whose(given: Mapping[str, str], engine: Engine, faults: list[str]) -> Whose:
    account, key_id = given["account"], given["key"]
    if account and not _is_account(engine, account):
        faults.append(
            f"No account is named “{account}”, and none that was deleted in the last {KEPT_DAYS} "
            "days was."
        )
    if key_id and not (len(key_id) == KEY_ID_CHARACTERS and key_id.isascii() and key_id.isalnum()):
        faults.append(f"The id of a key has {KEY_ID_CHARACTERS} letters and digits.")
        return Whose()
    # PERF: with the number of its account, the database reads only rows of that one. A key that
    # was deleted with its account may still have usage.
    key = find_key(engine, key_id) if key_id else None
    return Whose(key.account.id if key else None, account or None, key_id or None)


def _is_account(engine: Engine, name: str) -> bool:
    return is_known(engine, name) or Account.select().where(Account.name == name).exists(engine)


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
