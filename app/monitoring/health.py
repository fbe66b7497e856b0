"""Whether the process runs and can answer, for load balancers and the operator."""

import falcon
import msgspec
import peewee

from app import clock
from app.accounts.authentication import Authenticator
from app.alerts.conditions import conditions_of
from app.alerts.disk import write_fault
from app.alerts.loads import Freshness, freshness
from app.audit.state import AuditState, audit_state
from app.config import Config
from app.errors import Problem
from app.serve.http.address import is_local
from app.serve.http.authentication import find_caller, is_admitted
from app.serve.http.bodies import answer
from app.serve.http.context import Request
from app.serve.limits.file import StoreError
from app.serve.limits.store import LimitStore
from app.storage.engine import Engine, OnStandby, require_primary
from app.storage.registers import find_unreadable
from app.storage.versions import Versions, versions


class RegisterBody(msgspec.Struct):
    """The age of a register."""

    name: str
    loaded_at: str
    unchanged_since: str
    age_seconds: int
    stale: bool


class ReadyBody(msgspec.Struct):
    """The answer to everybody, also with the key of a client."""

    status: str


class ReadyDetails(ReadyBody):
    """The answer to whoever may know how the installation does."""

    checks: dict[str, str]
    registers: list[RegisterBody]
    warnings: list[str]


class Health:
    """Whether the process runs."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /healthz. 200 as long as the process answers; nothing else is checked."""
        answer(resp, ReadyBody("ok"))

    on_head = on_get


class Readiness:
    """Whether the service can answer.

    It can if the schema is usable, the registers can be read, look-ups can be recorded if
    they must be, and the rate limits can be kept. Faults that do not affect look-ups
    are only warnings.
    """

    def __init__(
        self, engine: Engine, authenticator: Authenticator, limits: LimitStore, config: Config
    ) -> None:
        self._engine = engine
        self._authenticator = authenticator
        self._limits = limits
        self._config = config

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /readyz. 200, or 503 `not_ready`; details for local callers and monitoring."""
        try:
            require_primary(self._engine)
            found = versions(self._engine)
            # Keys cannot be looked up in an empty database.
            may_see_details = is_local(req, self._config.trusted_proxies) or (
                found.database > 0 and self._has_key_of_monitoring(req)
            )
            refusal = found.refusal()
            if refusal is not None:
                detail = refusal if may_see_details else "The database schema cannot be used."
                raise Problem("not_ready", detail)
            self._require_registers(may_see_details)
            audit = audit_state(self._engine, self._config)
            _require_recorded(audit, may_see_details)
            body = self._details(found, audit) if may_see_details else ReadyBody("ready")
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            self._engine.recover(error)
            req.context.has_database_error = True
            reason = "is a standby" if isinstance(error, OnStandby) else "cannot be reached"
            raise Problem("not_ready", f"The database {reason}.") from None
        try:
            self._limits.require_usable()
        except StoreError:
            raise Problem("not_ready", "The rate limits cannot be kept.") from None
        answer(resp, body)

    on_head = on_get

    def _has_key_of_monitoring(self, req: Request) -> bool:
        """Tell whether the request has a key that may read the metrics (D80).

        SEC: warnings name other accounts, destinations of alerts, and paths.
        """
        caller = find_caller(self._authenticator, req)
        if caller is None or caller.only or caller.account not in self._config.metrics_accounts:
            return False
        return is_admitted(caller, req, self._config.trusted_proxies)

    def _require_registers(self, may_see_details: bool) -> None:
        missing = find_unreadable(self._engine)
        if missing is not None:
            detail = "A register cannot be read."
            if may_see_details:
                detail = missing.sentence
            raise Problem("not_ready", detail)

    def _details(self, found: Versions, audit: AuditState) -> ReadyDetails:
        registers = freshness(self._engine, self._config)
        warned_of = conditions_of(self._engine, self._config, ages=registers).conditions
        warnings = [each.warning for each in warned_of]
        fault = write_fault(self._engine)
        schema = f"{found.database}, program {found.program}"
        return ReadyDetails(
            status="ready",
            checks={
                "database": "reachable",
                "schema": schema,
                "limits": "kept",  # If the limiter fails, the request is refused after this.
                "audit": audit.text,
            },
            registers=list(map(_register_body, registers)),
            warnings=[fault, *warnings] if fault else warnings,
        )


def _require_recorded(audit: AuditState, may_see_details: bool) -> None:
    if audit.fault:
        reason = f": {audit.fault}" if may_see_details else ""
        raise Problem("not_ready", f"Look-ups cannot be recorded{reason}.")


def _register_body(each: Freshness) -> RegisterBody:
    return RegisterBody(
        name=each.register.name,
        loaded_at=clock.iso_utc(each.loaded_at),
        unchanged_since=clock.iso_utc(each.changed_at),
        age_seconds=each.age_seconds,
        stale=each.is_stale,
    )
