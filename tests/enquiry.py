"""Changes what a plan wants to know about look-ups, and what it shows and allows."""

from app.accounts.administration import require_plan, set_plan
from app.accounts.models import UNCHANGED, Enquiry, EnquiryChange, OnOff, Plan
from app.storage.engine import Engine


def set_enquiry(engine: Engine, name: str, enquiry: Enquiry, reasons: str | None = None) -> Plan:
    """Change a plan, and leave its limits as they are."""
    return _set(engine, name, EnquiryChange(enquiry, reasons))


def set_suggest(engine: Engine, name: str, suggest: OnOff) -> Plan:
    """Change whether the accounts of a plan get suggestions."""
    return _set(engine, name, UNCHANGED, suggest)


def set_watches_max(engine: Engine, name: str, watches_max: int) -> Plan:
    """Change how many watches the accounts of a plan may have."""
    return _set(engine, name, UNCHANGED, watches_max=watches_max)


def _set(
    engine: Engine,
    name: str,
    asking: EnquiryChange,
    suggest: OnOff | None = None,
    **limits: int,
) -> Plan:
    plan = require_plan(engine, name)
    return set_plan(
        engine,
        name,
        None,
        asking,
        suggest,
        requests=plan.requests,
        window_seconds=plan.window_seconds,
        bulk_max=plan.bulk_max,
        domains_max=plan.domains_max,
        **limits,
    )
