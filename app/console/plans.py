"""The pages of plans: list and detail (D12, D136)."""

import falcon
import peewee

from app.accounts.administration import DEFAULT_PLAN
from app.accounts.models import Account, Plan
from app.console.context import ConsoleRequest, PageError, Services
from app.console.listing import Listing
from app.storage.engine import Engine

PLACE = "plans"


class PlanList:
    """All plans."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/plans. Parameters: `sort`, `page`."""
        accounts = Account.select(peewee.fn.COUNT(Account.id)).where(Account.plan == Plan.name)
        sortable = {
            "requests": Plan.requests,
            "name": Plan.name,
            "vehicles": Plan.bulk_max,
            "domains": Plan.domains_max,
        }
        listing = Listing(req, sortable, Plan.name)
        plans = listing.rows(Plan.select(Plan, accounts.alias("accounts")), self._services.engine)
        self._services.pages.send(
            req,
            resp,
            "plans/list.html",
            listing=listing,
            plans=[(plan, segment_of(plan.name)) for plan in plans],
            default=DEFAULT_PLAN,
            done=req.get_param("done"),
        )

    on_head = on_get


class PlanPage:
    """One plan, with its accounts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, plan: str) -> None:
        """GET /console/plans/{plan}. Parameters: `sort`, `page`, for the accounts."""
        engine = self._services.engine
        found = require_plan(engine, plan)
        sortable = {
            "name": Account.name,
            "status": Account.suspended_at,
            "created": Account.created_at,
        }
        listing = Listing(req, sortable, Account.id)
        accounts = listing.rows(Account.select().where(Account.plan == found.name), engine)
        self._services.pages.send(
            req,
            resp,
            "plans/detail.html",
            plan=found,
            segment=plan,
            listing=listing,
            accounts=accounts,
            is_default=found.name == DEFAULT_PLAN,
            done=req.get_param("done"),
        )

    on_head = on_get


def segment_of(name: str) -> str:
    """Return a plan's name as a segment of a path; it can have any characters, a slash, too.

    Names of letters, digits and `-` stay as they are, unless a page has that path.
    """
    is_plain = name.isascii() and name.replace("-", "").isalnum() and name != "new"
    return name if is_plain else f"~{name.encode().hex()}"


def _name(segment: str) -> str | None:
    """Return the plan's name that a segment stands for; None if it stands for none."""
    if not segment.startswith("~"):
        return segment
    try:
        name = bytes.fromhex(segment[1:]).decode()
    except ValueError:  # UnicodeError is one, too.
        return None
    return name if name.isprintable() else None


def require_plan(engine: Engine, segment: str) -> Plan:
    """Return the plan of a path. Raises PageError if there is none."""
    name = _name(segment)
    plan: Plan | None = None
    if name is not None:
        plan = Plan.select().where(Plan.name == name).first(engine)
    if plan is None:
        text = "It was deleted, or never was."
        raise PageError(404, "There is no such plan", text, back=(PLACE,))
    return plan


def locked_plan(engine: Engine, segment: str) -> Plan:
    """Return the plan of a path, locked until the end of the transaction."""
    engine.lock_rows(Plan.select().where(Plan.name == _name(segment)))
    return require_plan(engine, segment)


def count_accounts(engine: Engine, plan: Plan) -> int:
    """Return how many accounts are on a plan."""
    return int(Account.select().where(Account.plan == plan.name).count(engine))
