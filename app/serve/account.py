"""What the caller's own account may do, and how much of it is left (D93)."""

from collections.abc import Callable
from typing import TypedDict

import falcon

from app import clock
from app.accounts.enquiry import split_reasons
from app.accounts.models import ApiKey
from app.serve.http.bodies import answer
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import require_known_parameters
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
    """Whether look-ups are asked for a reason: `off`, `optional` or `required` (D124)."""
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
