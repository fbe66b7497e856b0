"""`verifyd domains`: list accounts' domains, suspend and activate them."""

import argparse

from app.accounts.administration import require_account
from app.arguments import Argument
from app.cli.output import Table, print_item
from app.cli.parser import ACCOUNT, Group
from app.domains.names import canonical_domain_name
from app.domains.repository import Domains, HeldDomain, set_domain_status
from app.errors import OperatorError
from app.storage.session import opened_database
from app.text import counted

commands = Group("domains", "list, suspend and activate accounts' domains")
DOMAINS = Table[HeldDomain]("id name status created_at", columns="name status id created_at")
_NAME = Argument("NAME", "name of the domain")


@commands.command("list", "list an account's domains", ACCOUNT, examples=["domains list acme"])
def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = require_account(engine, args.account)
        found = Domains(engine).list_domains(account.id)
    DOMAINS.print_list(args, found, counted(len(found), "domain"))


# The lower one comes first in the help.
@commands.command(
    "activate",
    "set a domain's status to active",
    ACCOUNT,
    _NAME,
    examples=["domains activate acme example.com"],
    status="active",
)
@commands.command(
    "suspend",
    "set a domain's status to suspended",
    ACCOUNT,
    _NAME,
    examples=["domains suspend acme example.com"],
    status="suspended",
)
def _set_status(args: argparse.Namespace) -> None:
    name = canonical_domain_name(args.name)
    if name is None:
        raise OperatorError(f"{args.name} is not a domain name such as example.com")
    with opened_database() as engine:
        account = require_account(engine, args.account)
        domain = set_domain_status(engine, account.id, account.name, name, args.status)
    if domain is None:
        raise OperatorError(
            f"account {args.account} has no domain {name}; "
            f'see "verifyd domains list {args.account}"'
        )
    print_item(args, DOMAINS.item(domain), f"domain {domain.name} is {domain.status}")
