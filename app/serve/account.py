"""What the caller's own account may do, and how much it has used."""

from collections.abc import Callable, Sequence
from datetime import date, tzinfo
from typing import TypedDict

import falcon

from app import clock
from app.accounts.models import ApiKey, split_reasons
from app.accounts.usage.report import DAYS_MAX, By, Period, Used, Whose, period, usage_of_days
from app.serve.http.bodies import answer
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import date_parameter, invalid_parameter, require_known_parameters
from app.storage.engine import Engine, Prepared, parameter


class PlanAnswer(TypedDict):
    """The plan of the account."""

    name: str
    requests: int
    """Requests per window."""
    windowSeconds: int
    bulkMax: int
    """Registrations in one bulk request."""
    domainsMax: int
    enquiry: str
    """Whether look-ups are asked for a reason: `off`, `optional` or `required`."""
    enquiryReasons: list[str]
    """The accepted reasons; none if every reason is accepted."""


class KeyAnswer(TypedDict):
    """The key of the request; never its secret."""

    id: str
    label: str | None
    expiresAt: str | None
    """`YYYY-MM-DDTHH:MM:SSZ`."""


class AccountAnswer(TypedDict):
    """The caller's account."""

    name: str
    plan: PlanAnswer
    requestsRemaining: int
    """Tokens left after this request, as in `X-RateLimit-Remaining`."""
    domainsUsed: int
    key: KeyAnswer


class OwnAccount:
    """The account of the request's key.

    Args:
        count_domains: returns how many domains an account has, by its number.
    """

    def __init__(self, engine: Engine, count_domains: Callable[[int], int]) -> None:
        self._count_domains = count_domains
        self._find_key = Prepared(
            engine,
            lambda: ApiKey.select(ApiKey.label, ApiKey.expires_at).where(
                ApiKey.id == parameter("key_id")
            ),
        )

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /v1/account."""
        require_known_parameters(req)
        caller, share = caller_of(req), req.context.share
        assert share is not None  # noqa: S101 - Limits admitted the request
        # The key was deleted with its account if it is gone since it was checked.
        label, expires_at = self._find_key.row(key_id=caller.key_id) or (None, None)
        account: AccountAnswer = {
            "name": caller.account,
            "plan": {
                "name": caller.plan,
                "requests": caller.requests,
                "windowSeconds": caller.window_seconds,
                "bulkMax": caller.bulk_max,
                "domainsMax": caller.domains_max,
                "enquiry": caller.enquiry,
                "enquiryReasons": split_reasons(caller.enquiry_reasons),
            },
            "requestsRemaining": share.outcome.remaining,
            "domainsUsed": self._count_domains(caller.account_id),
            "key": {
                "id": caller.key_id,
                "label": label or None,
                "expiresAt": None if expires_at is None else clock.iso_utc(expires_at),
            },
        }
        answer(resp, account)

    on_head = on_get


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
        zone: the time zone that decides which day it is.
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
