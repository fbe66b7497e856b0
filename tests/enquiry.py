"""Changes what a plan wants to know about look-ups (D124)."""

from app.accounts.administration import require_plan, set_plan
from app.accounts.models import Enquiry, EnquiryChange, Plan
from app.storage.engine import Engine


def set_enquiry(engine: Engine, name: str, enquiry: Enquiry, reasons: str | None = None) -> Plan:
    """Change a plan, and leave its limits as they are."""
    plan = require_plan(engine, name)
    return set_plan(
        engine,
        name,
        None,
        EnquiryChange(enquiry, reasons),
        requests=plan.requests,
        window_seconds=plan.window_seconds,
        bulk_max=plan.bulk_max,
        domains_max=plan.domains_max,
    )
