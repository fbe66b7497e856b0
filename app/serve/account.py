"""What the caller's own account may do, and how much it has used."""

from collections.abc import Callable
from datetime import date, tzinfo

import falcon
import msgspec

from app import clock
from app.accounts.models import ApiKey
from app.accounts.usage.report import DAYS_MAX, By, Period, Used, Whose, period, usage_of_days
from app.serve.http.bodies import answer
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import date_parameter, invalid_parameter, require_known_parameters
from app.settings.enquiries import split_reasons
from app.storage.engine import Engine, Prepared, parameter


class PlanBody(msgspec.Struct, rename="camel"):
    """The plan of the account."""

    name: str
    requests: int
    """Requests per window."""
    window_seconds: int
    bulk_max: int
    """Registrations in one bulk request."""
    domains_max: int
    watches_max: int
    enquiry: str
    """Whether look-ups are asked for a reason: `off`, `optional` or `required`."""
    enquiry_reasons: list[str]
    """The accepted reasons; none if every reason is accepted."""
    suggest: bool
    """Whether a 404 of a look-up has suggestions."""
    sandbox: bool
    """Whether look-ups get invented answers."""


class KeyBody(msgspec.Struct, rename="camel"):
    """The key of the request; never its secret."""

    id: str
    label: str | None
    expires_at: str | None
    """`YYYY-MM-DDTHH:MM:SSZ`."""
    only: str | None
    """The area of operations that it is restricted to; None for all."""
    networks: list[str]
    """The networks that it is restricted to; none for all addresses."""


class AccountBody(msgspec.Struct, rename="camel"):
    """The caller's account."""

    name: str
    plan: PlanBody
    requests_remaining: int
    """Tokens left after this request, as in `X-RateLimit-Remaining`."""
    domains_used: int
    watches_used: int
    key: KeyBody


class OwnAccount:
    """The account of the request's key.

    Args:
        count_domains: returns how many domains an account has, by its number.
        count_watches: the same of watches.
    """

    def __init__(
        self,
        engine: Engine,
        count_domains: Callable[[int], int],
        count_watches: Callable[[int], int],
    ) -> None:
        self._count_domains = count_domains
        self._count_watches = count_watches
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
        plan = PlanBody(
            caller.plan,
            caller.requests,
            caller.window_seconds,
            caller.bulk_max,
            caller.domains_max,
            caller.watches_max,
            caller.enquiry,
            split_reasons(caller.enquiry_reasons),
            caller.suggest == "on",
            caller.is_sandbox,
        )
        ends = None if expires_at is None else clock.iso_utc(expires_at)
        key = KeyBody(caller.key_id, label or None, ends, *caller.restrictions)
        domains = self._count_domains(caller.account_id)
        watches = self._count_watches(caller.account_id)
        remaining = share.outcome.remaining
        answer(resp, AccountBody(caller.account, plan, remaining, domains, watches, key))

    on_head = on_get


class DayUsage(msgspec.Struct):
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
    events: int


class UsageBody(msgspec.Struct, rename="camel"):
    """The usage of an account on some days; days and operations without answers are left out."""

    # NOTE: generated clients cannot have members called `from`.
    first_day: str
    last_day: str
    usage: list[DayUsage]


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
        usage = list(map(_day_usage, used))
        answer(resp, UsageBody(first.isoformat(), last.isoformat(), usage))

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
    day, operation = str(used.day), str(used.operation)
    ok, refused, limited, failed = used.by_class
    counts = used.answers, ok, refused, limited, failed, used.vehicles, used.events
    return DayUsage(day, operation, *counts)
