"""`verifyd accounts`, `plans` and `keys`."""

import argparse
from datetime import date
from functools import partial

from app.accounts import administration
from app.accounts.models import BULK_MAX, ENQUIRIES, ON_OFF, Account, ApiKey, Plan
from app.accounts.restrictions import AREAS, NETWORKS_MAX, NO_ADDRESS, Restrictions, network
from app.accounts.tokens import KEY_ID_CHARACTERS, is_key_id, parse_token
from app.arguments import Argument
from app.cli.output import Table, confirm, item_lines, print_item, table_lines, utc
from app.cli.parser import ACCOUNT, YES, Group, day_argument, whole_number
from app.domains.repository import Domains
from app.settings.enquiries import split_reasons
from app.storage import reserve
from app.storage.session import opened_database
from app.text import counted
from app.watches.repository import count_of_account

accounts = Group("accounts", "create, list, suspend and delete accounts")
plans = Group("plans", "create, change, list and delete plans")
keys = Group("keys", "create, list, revoke and rotate API keys")
commands = Group()
for group in (accounts, plans, keys):
    commands.include(group)

ACCOUNTS = Table[Account](
    "name plan status tag created_at suspended_at",
    columns="name plan status tag created_at",
    plan=lambda account: account.plan_id,
)
PLANS = Table[Plan](
    "name requests window_seconds bulk_max domains_max watches_max enquiry enquiry_reasons "
    "suggest sandbox",
    enquiry_reasons=lambda plan: split_reasons(plan.enquiry_reasons),
)
_COLUMNS_OF_KEYS = "label only networks status created_at expires_at revoked_at"
KEYS = Table[ApiKey](
    "id account label only networks status created_at expires_at revoked_at replaced_by",
    columns=f"id account {_COLUMNS_OF_KEYS}",
    account=lambda key: key.account.name,
    only=lambda key: key.restrictions.only,
    networks=lambda key: key.restrictions.networks,
)
_NAME = Argument("NAME", "name of the account")
_PLAN = Argument("NAME", "name of the plan")


@accounts.command(
    "create",
    "create an account",
    Argument("NAME", "name of the new account"),
    Argument(
        "--plan PLAN", "plan of the account [%(default)s]", default=administration.DEFAULT_PLAN
    ),
    examples=["accounts create acme", "accounts create acme --plan enterprise"],
)
def _create_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.create_account(engine, args.name, args.plan)
    sentence = f"account {account.name} created on plan {account.plan_id}"
    print_item(args, ACCOUNTS.item(account), sentence)


@accounts.command(
    "set-plan",
    "move an account to another plan from its next request on",
    _NAME,
    Argument("PLAN", "name of the plan"),
    examples=["accounts set-plan acme enterprise"],
)
def _set_plan_of_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.set_account_plan(engine, args.name, args.plan)
    print_item(args, ACCOUNTS.item(account), f"account {account.name} is on plan {account.plan_id}")


@accounts.command("list", "list accounts", examples=["accounts list", "accounts list --json"])
def _list_accounts(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        found = administration.list_accounts(engine)
    ACCOUNTS.print_list(args, found, counted(len(found), "account"))


@accounts.command(
    "show",
    "show an account with its plan, domains and keys",
    _NAME,
    examples=["accounts show acme", "accounts show acme --json"],
)
def _show_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.require_account(engine, args.name)
        plan = administration.require_plan(engine, account.plan_id)
        its_keys = list(map(KEYS.item, administration.list_keys(engine, args.name)))
        domains = Domains(engine).count_domains(account.id)
    active = sum(key["status"] == "active" for key in its_keys)
    item = ACCOUNTS.item(account)
    item |= PLANS.item(plan)
    item |= {"name": account.name, "active_keys": active, "domains": domains}
    table = ["", *table_lines(its_keys, ["id", *_COLUMNS_OF_KEYS.split()])] if its_keys else []
    sentence = (
        f"account {account.name} is {item['status']}, with {counted(active, 'active key')} "
        f"and {domains:,} of {counted(plan.domains_max, 'domain')}"
    )
    print_item(args, item | {"keys": its_keys}, sentence, text=[*item_lines(item), *table])


@accounts.command(
    "suspend",
    "refuse an account's keys from the next request on",
    _NAME,
    examples=["accounts suspend acme"],
)
def _suspend(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = reserve.with_reserve(engine, administration.suspend_account, engine, args.name)
    print_item(args, ACCOUNTS.item(account), f"account {account.name} is suspended")


@accounts.command(
    "resume",
    "accept a suspended account's keys again",
    _NAME,
    examples=["accounts resume acme"],
)
def _resume(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.resume_account(engine, args.name)
    print_item(args, ACCOUNTS.item(account), f"account {account.name} is active")


@accounts.command(
    "delete",
    "delete an account without domains, with its keys, watches and events",
    _NAME,
    YES,
    examples=["accounts delete acme", "accounts delete acme --yes"],
)
def _delete_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        count = Domains(engine).count_domains
        account = administration.require_account(engine, args.name)
        administration.require_without_domains(account, count)
        count_others = partial(count_of_account, engine)
        keys, others = len(administration.list_keys(engine, args.name)), count_others(account.id)
        what = f"{args.name} and its {counted(keys, 'key')}"
        if any(others.values()):
            watches = counted(others["watches"], "watch", "watches")
            what += f", {watches} and {counted(others['events'], 'event')}"
        confirm(args, f"Delete account {what} for good?")
        administration.delete_account(engine, args.name, count, count_others)
    item = ACCOUNTS.item(account) | {"status": "deleted"} | others
    print_item(args, item, f"account {what} deleted")


def _number(usage: str, meaning: str) -> Argument:
    return Argument(usage, meaning, type=whole_number, required=True)


@plans.command(
    "set",
    "create a plan, or change one from the next request of its accounts",
    _PLAN,
    _number("--requests N", "requests per window"),
    _number("--window SECONDS", "length of the window"),
    _number("--bulk-max N", f"registrations in one bulk request, at most {BULK_MAX:,}"),
    _number("--domains-max N", "domains of one account, at most 1,000,000"),
    Argument(
        "--watches-max N",
        "watches of one account, at most 1,000,000 [unchanged, 0 for a new plan]",
        type=whole_number,
    ),
    Argument(
        "--enquiry off|optional|required",
        "whether look-ups are asked for a reason [unchanged, off for a new plan]",
        choices=ENQUIRIES,
    ),
    Argument(
        "--enquiry-reasons A,B", 'accepted reasons, "" for all [unchanged, all for a new plan]'
    ),
    Argument(
        "--suggest on|off",
        "whether a 404 shows known plates that look alike [unchanged, off for a new plan]",
        choices=ON_OFF,
    ),
    Argument(
        "--sandbox on|off",
        "whether its accounts get invented answers, only for a new plan [off]",
        choices=ON_OFF,
    ),
    examples=[
        "plans set standard --requests 600 --window 60 --bulk-max 1000 --domains-max 1000",
        "plans set police --requests 600 --window 60 --bulk-max 100 --domains-max 0"
        " --enquiry required --enquiry-reasons THEFT,COLLISION",
        "plans set sandbox --requests 600 --window 60 --bulk-max 1000 --domains-max 100"
        " --watches-max 100 --sandbox on",
    ],
)
def _set_plan(args: argparse.Namespace) -> None:
    limits = {
        "requests": args.requests,
        "window_seconds": args.window,
        "bulk_max": args.bulk_max,
        "domains_max": args.domains_max,
    }
    if args.watches_max is not None:
        limits["watches_max"] = args.watches_max
    with opened_database() as engine:
        plan = administration.set_plan(
            engine,
            args.name,
            limits,
            enquiry=args.enquiry,
            reasons=args.enquiry_reasons,
            suggest=args.suggest,
            sandbox=args.sandbox,
        )
    allowed = f"{counted(plan.requests, 'request')} per {counted(plan.window_seconds, 'second')}"
    print_item(args, PLANS.item(plan), f"plan {plan.name} allows {allowed}")


@plans.command("list", "list plans", examples=["plans list", "plans list --json"])
def _list_plans(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        found = administration.list_plans(engine)
    PLANS.print_list(args, found, counted(len(found), "plan"))


@plans.command(
    "delete", "delete a plan that no account uses", _PLAN, examples=["plans delete trial"]
)
def _delete_plan(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        deleted = administration.delete_plan(engine, args.name)
    print_item(args, PLANS.item(deleted), f"plan {args.name} deleted")


def _last_day(text: str) -> date:
    """Return the day on which a key expires. The last one of the calendar has no end."""
    day = day_argument(text)
    if day == date.max:
        raise ValueError(f"must be before {date.max}")
    return day


def _key_id(text: str) -> str:
    """Return the id of a key, also if the whole key is given."""
    text = text.strip()
    token = parse_token(text)
    if token is not None:
        return token.key_id
    if not is_key_id(text):
        # SEC: the text is not repeated, because it can be a part of a key.
        raise ValueError(
            f"must be an id of {KEY_ID_CHARACTERS} letters and digits, or a whole key; "
            'see "verifyd keys list"'
        )
    return text


@keys.command(
    "create",
    "create a key and show it once",
    ACCOUNT,
    Argument("--label TEXT", "text that tells keys apart in lists [none]", default=""),
    Argument(
        "--expires DATE",
        "last day on which the key works, YYYY-MM-DD in UTC [none]",
        type=_last_day,
    ),
    Argument(
        "--only domains|vehicles",
        "operations that the key is restricted to [all operations]",
        choices=AREAS,
    ),
    Argument(
        "--network CIDR",
        "network or address that the key is restricted to, such as 203.0.113.0/24, given up to "
        f"{NETWORKS_MAX} times [all addresses]",
        action="append",
        dest="networks",
        default=[],
        type=network,
    ),
    examples=[
        "keys create acme",
        "keys create acme --label billing --expires 2030-12-31",
        "keys create acme --only vehicles --network 203.0.113.7 --network 2001:db8::/32",
    ],
)
def _create_key(args: argparse.Namespace) -> None:
    expires_at = administration.end_of_day(args.expires) if args.expires else None
    restrictions = Restrictions(args.only, args.networks)
    with opened_database() as engine:
        key, token = administration.create_key(
            engine, args.account, args.label, expires_at, restrictions
        )
        item = _with_secret(key, token.text)
    print_item(args, item, f"key {key.id} created; save it, it is not shown again")


@keys.command(
    "list",
    "list keys, without their secrets",
    Argument("ACCOUNT", "name of an account [all accounts]", nargs="?"),
    examples=["keys list", "keys list acme"],
)
def _list_keys(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        found = administration.list_keys(engine, args.account)
    KEYS.print_list(args, found, counted(len(found), "key"))


@keys.command(
    "revoke",
    "refuse a key from the next request on",
    Argument("ID", "id of the key in the list, or the whole key", type=_key_id),
    examples=["keys revoke 3NnTYh3d"],
)
def _revoke_key(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        key = reserve.with_reserve(engine, administration.revoke_key, engine, args.id)
        revoked = KEYS.item(key)
    print_item(args, revoked, f"key {args.id} is revoked since {revoked['revoked_at']}")


@keys.command(
    "rotate",
    "create a key that replaces another",
    Argument("ID", "id of the old key in the list, or the whole key", type=_key_id),
    Argument(
        "--grace SECONDS",
        "how long the old key still works [%(default)s, one day]",
        type=whole_number,
        default=administration.ROTATION_GRACE_SECONDS,
    ),
    examples=["keys rotate 3NnTYh3d", "keys rotate 3NnTYh3d --grace 3600"],
)
def _rotate_key(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        key, token = administration.rotate_key(engine, args.id, args.grace)
        old = administration.require_key(engine, args.id)
        item = _with_secret(key, token.text)
    until = utc(old.expires_at)
    print_item(
        args,
        item | {"replaces": old.id, "replaced_until": until},
        f"key {key.id} replaces {old.id}, which works until {until}; "
        "save the new key, it is not shown again",
    )


def _with_secret(key: ApiKey, text: str) -> dict[str, object]:
    """Return the members of a new key. SEC: nothing else shows the whole key."""
    # The key comes second, where nobody overlooks the line.
    item = {"id": key.id, "key": text} | KEYS.item(key)
    return item | {"notes": [NO_ADDRESS]} if key.networks else item
