"""Does the process live, and can it answer: for load balancers and the operator."""

import falcon
import peewee

from app.accounts.authentication import Authenticator
from app.config import Config
from app.database import Engine, drop_connection
from app.errors import Problem
from app.http.address import is_local
from app.http.authentication import find_caller
from app.http.bodies import answer
from app.limits.file import StoreError
from app.limits.store import LimitStore
from app.schema import Versions, versions


class Health:
    """The process lives."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /healthz. 200 as long as the process answers at all; asks nothing else."""
        answer(resp, {"status": "ok"})

    on_head = on_get


class Readiness:
    """The service can answer: database reachable, schema usable (D29), rate limits kept (D11)."""

    def __init__(
        self, engine: Engine, authenticator: Authenticator, limits: LimitStore, config: Config
    ) -> None:
        self._engine = engine
        self._authenticator = authenticator
        self._limits = limits
        self._trusted_proxies = config.trusted_proxies

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /readyz. 200, or 503 `not_ready`; details for local callers and key holders (D2)."""
        is_local_caller = is_local(req, self._trusted_proxies)
        try:
            found = versions(self._engine)
            refusal = found.refusal()
            # An empty database has no keys to ask for.
            may_see_details = is_local_caller or (
                found.database > 0 and find_caller(self._authenticator, req) is not None
            )
        except (peewee.DatabaseError, peewee.InterfaceError):
            drop_connection(self._engine)
            req.context.has_database_error = True
            raise Problem("not_ready", "The database cannot be reached.") from None
        if refusal is not None:
            detail = refusal if may_see_details else "The database is not of a usable schema."
            raise Problem("not_ready", detail)
        try:
            self._limits.require_usable()
        except StoreError:
            raise Problem("not_ready", "The rate limits cannot be kept.") from None
        members: dict[str, object] = {"status": "ready"}
        if may_see_details:
            members["checks"] = _checks(found)
        answer(resp, members)

    on_head = on_get


def _checks(found: Versions) -> dict[str, str]:
    schema = f"{found.database}, program {found.program}"
    return {"database": "reachable", "schema": schema, "limits": "kept"}
