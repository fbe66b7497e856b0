"""Whether the process runs and can answer, for load balancers and the operator."""

from collections.abc import Iterator
from typing import NamedTuple

import falcon
import msgspec
import peewee

from app import clock
from app.accounts.authentication import Authenticator
from app.alerts.conditions import conditions_of
from app.alerts.disk import write_fault
from app.alerts.loads import Freshness, freshness
from app.audit.state import AuditState, recording_fault, summary_of
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
from app.text import as_sentence


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


class Obstacle(NamedTuple):
    """Why the service cannot answer."""

    public: str
    """For everybody. SEC: without names and paths."""
    detail: str
    """For whoever may know how the installation does."""
    sentence: str
    """For operators."""


def obstacles(
    engine: Engine, config: Config, limits: LimitStore, schema: Versions
) -> Iterator[Obstacle]:
    """Yield why the service is not ready; nothing is looked at before it is asked for.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    if refusal := schema.refusal():
        yield Obstacle("The database schema cannot be used.", refusal, as_sentence(refusal))
    if missing := find_unreadable(engine):
        yield Obstacle("A register cannot be read.", missing.sentence, missing.sentence)
    if fault := recording_fault(engine, config):
        what = "Look-ups cannot be recorded"
        yield Obstacle(f"{what}.", f"{what}: {fault}.", f"{what}, so each is refused: {fault}.")
    try:
        limits.require_usable()
    except StoreError as error:
        what = "The rate limits cannot be kept"
        yield Obstacle(f"{what}.", f"{what}.", f"{what}: {error}.")


class Health:
    """Whether the process runs."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /healthz. 200 as long as the process answers; nothing else is checked."""
        answer(resp, ReadyBody("ok"))

    on_head = on_get


class Readiness:
    """Whether the service can answer.

    Faults that do not affect look-ups are only warnings: a load balancer must not remove a service
    that answers.
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
            fault = next(obstacles(self._engine, self._config, self._limits, found), None)
            if fault is not None:
                raise Problem("not_ready", fault.detail if may_see_details else fault.public)
            body = self._details(found) if may_see_details else ReadyBody("ready")
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            self._engine.recover(error)
            req.context.has_database_error = True
            reason = "is a standby" if isinstance(error, OnStandby) else "cannot be reached"
            raise Problem("not_ready", f"The database {reason}.") from None
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

    def _details(self, found: Versions) -> ReadyDetails:
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
                "limits": "kept",
                "audit": AuditState(self._config.audit, "", summary_of(self._config)).text,
            },
            registers=list(map(_register_body, registers)),
            warnings=[fault, *warnings] if fault else warnings,
        )


def _register_body(each: Freshness) -> RegisterBody:
    return RegisterBody(
        name=each.register.name,
        loaded_at=clock.iso_utc(each.loaded_at),
        unchanged_since=clock.iso_utc(each.changed_at),
        age_seconds=each.age_seconds,
        stale=each.is_stale,
    )
