"""Changes what a plan wants to know about look-ups, and what it shows and allows."""

from app.accounts.administration import PLAN_LIMITS, require_plan, set_plan
from app.accounts.models import Enquiry, OnOff, Plan
from app.storage.engine import Engine


def set_enquiry(engine: Engine, name: str, enquiry: Enquiry, reasons: str | None = None) -> Plan:
    """Change a plan, and leave its limits as they are."""
    return set_plan(engine, name, _limits(engine, name), enquiry=enquiry, reasons=reasons)


def set_suggest(engine: Engine, name: str, suggest: OnOff) -> Plan:
    """Change whether the accounts of a plan get suggestions."""
    return set_plan(engine, name, _limits(engine, name), suggest=suggest)


def set_watches_max(engine: Engine, name: str, watches_max: int) -> Plan:
    """Change how many watches the accounts of a plan may have."""
    return set_plan(engine, name, _limits(engine, name) | {"watches_max": watches_max})


def _limits(engine: Engine, name: str) -> dict[str, int]:
    plan = require_plan(engine, name)
    return {limit: getattr(plan, limit) for limit in PLAN_LIMITS}
