"""Every request takes a token before its path is checked; headers say what remains (D5, D7)."""

import logging
from contextlib import suppress

import falcon
import peewee

from app import clock
from app.config import Config
from app.errors import RETRY_AFTER_SECONDS, Problem
from app.serve.http.address import client_address
from app.serve.http.context import Request, RequestContext, Share
from app.serve.http.problems import FailureLog
from app.serve.limits.bucket import SECOND_NS, rate
from app.serve.limits.file import StoreError
from app.serve.limits.store import LimitStore, account_slot
from app.text import counted

_ANONYMOUS_WINDOW_SECONDS = 60
_log = logging.getLogger("verifyd.limits")


class Limits:
    """Charges the account of the key; without a valid key, the client's address.

    Comes after Authentication, which puts a caller or a refusal into the context; neither where no
    key is needed.
    """

    def __init__(self, store: LimitStore, config: Config) -> None:
        self._store = store
        self._trusted_proxies = config.trusted_proxies
        self._anonymous = rate(config.anonymous_limit, _ANONYMOUS_WINDOW_SECONDS)
        self._failures = FailureLog(_log, "rate limits", "they can be kept again")

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Take a token; admit requests with a valid key and requests that need none.

        Raises Problem: rate_limit_exceeded, the refusal of the key, or service_unavailable if
        the buckets cannot be used.
        """
        context = req.context
        if context.refusal is None and context.caller is None:
            # Where no key is needed, the answer does not depend on the state of the buckets.
            with suppress(StoreError, peewee.DatabaseError, peewee.InterfaceError):
                context.share = self._share(req, is_charged=False)
            return
        try:
            share = context.share = self._share(req, is_charged=True)
        except StoreError:
            detail = f"The rate limits cannot be kept now. Retry in {RETRY_AFTER_SECONDS} s."
            raise Problem("service_unavailable", detail) from None
        if not share.outcome.admitted:
            raise _exceeded(share, context)
        if context.refusal is not None:
            raise context.refusal

    def process_response(
        self, req: Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Set the three headers; estimate them where no bucket could be read."""
        share = req.context.share
        if share is not None:
            limit, remaining = share.rate.limit, share.outcome.remaining
            full_in_ns = share.outcome.full_in_ns
        else:
            caller = req.context.caller
            limit, remaining = caller.requests if caller else self._anonymous.limit, 0
            wait = resp.get_header("Retry-After") or RETRY_AFTER_SECONDS
            full_in_ns = int(wait) * SECOND_NS
        resp.set_header("X-RateLimit-Limit", str(limit))
        resp.set_header("X-RateLimit-Remaining", str(remaining))
        # Rounded up: at that second the bucket is full, not almost.
        reset_at_epoch_seconds = -(-(clock.now_ns() + full_in_ns) // SECOND_NS)
        resp.set_header("X-RateLimit-Reset", str(reset_at_epoch_seconds))

    def _share(self, req: Request, *, is_charged: bool) -> Share:
        caller = req.context.caller
        try:
            if caller is not None:
                slot = account_slot(caller.account_id)
                plan = rate(caller.requests, caller.window_seconds)
            else:
                address = client_address(req, self._trusted_proxies)
                slot, plan = self._store.address_slot(address), self._anonymous
            ask = self._store.take if is_charged else self._store.peek
            share = Share(plan, ask(slot, plan), is_charged)
        except StoreError as error:
            self._failures.failed(str(error), req.context.request_id)
            raise
        self._failures.worked()
        return share


def _exceeded(share: Share, context: RequestContext) -> Problem:
    plan, wait, whose = share.rate, share.outcome.retry_after_seconds, ""
    if context.caller is None:
        whose = " from this address" if context.refused_key else " without a valid key"
    return Problem(
        "rate_limit_exceeded",
        f"The limit of {counted(plan.limit, 'request')}{whose} in {plan.window_seconds:,} s is "
        f"used up; the next one is admitted in {wait:,} s.",
        headers={"Retry-After": str(wait)},
    )
