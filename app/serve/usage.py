"""How much the caller's own account has used (D129)."""

from collections.abc import Sequence
from datetime import date, tzinfo
from typing import TypedDict

import falcon

from app import clock
from app.accounts.usage.period import DAYS_MAX, Period, period
from app.accounts.usage.report import By, Used, Whose, usage_of_days
from app.serve.http.bodies import answer
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import date_parameter, invalid_parameter, require_known_parameters
from app.storage.engine import Engine


class DayUsage(TypedDict):
    """The answers of one operation on one day; `answers` is the sum of the four after it."""

    day: str
    operation: str
    answers: int
    status2xx: int
    status4xx: int
    """Without 429."""
    status429: int
    status5xx: int
    vehicles: int


class UsageAnswer(TypedDict):
    """The usage of an account on some days; days and operations without answers are left out."""

    # NOTE: generated clients cannot have members called `from`.
    firstDay: str
    lastDay: str
    usage: Sequence[DayUsage]


class OwnUsage:
    """The usage of the request's account.

    Args:
        zone: the time zone that decides which day it is (D20).
    """

    def __init__(self, engine: Engine, zone: tzinfo) -> None:
        self._engine = engine
        self._zone = zone

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /v1/usage. By day and operation; it lags by up to ten seconds."""
        require_known_parameters(req, "from", "to")
        first, last = self._period(req)
        whose = Whose(account_id=caller_of(req).account_id)
        used = usage_of_days(self._engine, first, last, (By.DAY, By.OPERATION), whose)
        usage: UsageAnswer = {
            "firstDay": first.isoformat(),
            "lastDay": last.isoformat(),
            "usage": [_day_usage(each) for each in used],
        }
        answer(resp, usage)

    on_head = on_get

    def _period(self, req: Request) -> Period:
        """Return the days that were asked for. Raises Problem invalid_parameter."""
        since, until = date_parameter(req, "from"), date_parameter(req, "to")
        asked = period(_day(since), _day(until), clock.today(self._zone))
        end = "today" if until is None else "the parameter to"
        if asked.days < 1:
            raise invalid_parameter("from", f"must not be after {end}")
        if asked.days > DAYS_MAX:
            raise invalid_parameter("from", f"must be less than {DAYS_MAX} days before {end}")
        return asked


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _day_usage(used: Used) -> DayUsage:
    ok, refused, limited, failed = used.by_class
    return {
        "day": str(used.day),
        "operation": str(used.operation),
        "answers": used.answers,
        "status2xx": ok,
        "status4xx": refused,
        "status429": limited,
        "status5xx": failed,
        "vehicles": used.vehicles,
    }
