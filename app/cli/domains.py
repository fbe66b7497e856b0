"""`verifyd domains`: what the operator may do with accounts' domains (D16)."""

import argparse

from app import clock
from app.accounts.administration import require_account
from app.cli.output import Item, print_item, print_items
from app.cli.parser import Commands, add_command, add_group
from app.cli.session import opened_database
from app.domains.names import canonical_domain_name
from app.domains.repository import Domains, HeldDomain
from app.errors import OperatorError

_COLUMNS = ("name", "status", "id", "created_at")


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    domains = add_group(commands, "domains", "list, suspend and activate accounts' domains")
    listed = add_command(domains, "list", _list, "list an account's domains")
    listed.add_argument("account", metavar="ACCOUNT")
    for name, status in (("suspend", "suspended"), ("activate", "active")):
        command = add_command(domains, name, _set_status, f"set a domain's status to {status}")
        command.set_defaults(status=status)
        command.add_argument("account", metavar="ACCOUNT")
        command.add_argument("name", metavar="NAME")


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = require_account(engine, args.account)
        domains = Domains(engine).list_domains(account.id)
    print_items(args, list(map(_members, domains)), _COLUMNS)


def _set_status(args: argparse.Namespace) -> None:
    name = canonical_domain_name(args.name)
    if name is None:
        raise OperatorError(f"{args.name} is not a domain name")
    with opened_database() as engine:
        account = require_account(engine, args.account)
        domain = Domains(engine).set_status(account.id, name, args.status)
    if domain is None:
        raise OperatorError(
            f"account {args.account} has no domain {name}; "
            f"see `verifyd domains list {args.account}`"
        )
    print_item(args, _members(domain))


def _members(domain: HeldDomain) -> Item:
    return domain._asdict() | {"created_at": clock.iso_utc(domain.created_at)}
