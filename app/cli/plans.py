"""`verifyd plans` (D12, D81, D124)."""

import argparse
from typing import TypedDict

from app.accounts import administration, lifecycle
from app.accounts.models import BULK_MAX, ENQUIRIES, EnquiryChange, Plan, split_reasons
from app.cli.output import counted, print_item, print_items
from app.cli.parser import Commands, add_command, add_group, whole_number
from app.storage.session import opened_database


class PlanItem(TypedDict):
    """A plan as commands print it."""

    name: str
    requests: int
    """Per window."""
    window_seconds: int
    bulk_max: int
    """Registrations in one bulk request."""
    domains_max: int
    enquiry: str
    """`off`, `optional` or `required`."""
    enquiry_reasons: list[str]
    """The accepted reasons; none if every reason is accepted."""


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    plans = add_group(commands, "plans", "create, change, list and delete plans")
    plan = add_command(
        plans,
        "set",
        _set,
        "create a plan, or change one from the next request of its accounts",
        examples=[
            "plans set standard --requests 600 --window 60 --bulk-max 1000 --domains-max 1000",
            "plans set police --requests 600 --window 60 --bulk-max 100 --domains-max 0"
            " --enquiry required --enquiry-reasons THEFT,COLLISION",
        ],
    )
    plan.add_argument("name", metavar="NAME", help="name of the plan")
    plan.add_argument(
        "--requests", type=whole_number, required=True, metavar="N", help="requests per window"
    )
    plan.add_argument(
        "--window", type=whole_number, required=True, metavar="SECONDS", help="length of the window"
    )
    plan.add_argument(
        "--bulk-max",
        type=whole_number,
        required=True,
        metavar="N",
        help=f"registrations in one bulk request, at most {BULK_MAX:,}",
    )
    plan.add_argument(
        "--domains-max",
        type=whole_number,
        required=True,
        metavar="N",
        help="domains of one account, at most 1,000,000",
    )
    plan.add_argument(
        "--enquiry",
        choices=ENQUIRIES,
        metavar="off|optional|required",
        help="whether look-ups are asked for a reason [unchanged, off for a new plan]",
    )
    plan.add_argument(
        "--enquiry-reasons",
        metavar="A,B",
        help='accepted reasons, "" for all [unchanged, all for a new plan]',
    )
    add_command(plans, "list", _list, "list plans", examples=["plans list", "plans list --json"])
    unused = add_command(
        plans,
        "delete",
        _delete,
        "delete a plan that no account uses",
        examples=["plans delete trial"],
    )
    unused.add_argument("name", metavar="NAME", help="name of the plan")


def _set(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        plan = administration.set_plan(
            engine,
            args.name,
            None,
            EnquiryChange(args.enquiry, args.enquiry_reasons),
            requests=args.requests,
            window_seconds=args.window,
            bulk_max=args.bulk_max,
            domains_max=args.domains_max,
        )
    print_item(
        args,
        _item(plan),
        f"plan {plan.name} allows {counted(plan.requests, 'request')} "
        f"per {counted(plan.window_seconds, 'second')}",
    )


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        plans = [_item(plan) for plan in administration.list_plans(engine)]
    print_items(args, plans, tuple(PlanItem.__annotations__), counted(len(plans), "plan"))


def _delete(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        deleted = _item(lifecycle.delete_plan(engine, args.name))
    print_item(args, deleted, f"plan {args.name} deleted")


def _item(plan: Plan) -> PlanItem:
    return {
        "name": plan.name,
        "requests": plan.requests,
        "window_seconds": plan.window_seconds,
        "bulk_max": plan.bulk_max,
        "domains_max": plan.domains_max,
        "enquiry": plan.enquiry,
        "enquiry_reasons": split_reasons(plan.enquiry_reasons),
    }
