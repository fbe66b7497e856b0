"""`verifyd console`: links that open the console, and the end of its sessions (D132)."""

import argparse
import socket
from functools import partial
from typing import TypedDict
from urllib.parse import urlsplit

from app import clock
from app.cli.demo_service import base_url
from app.cli.output import counted, print_item
from app.cli.parser import Commands, add_command, add_group
from app.config import SETTINGS, Config
from app.console.roles import Role
from app.console.sessions import LINK_SECONDS, create_link, end_sessions
from app.errors import OperatorError
from app.serve.listening import chosen_by_systemd
from app.storage import reserve
from app.storage.session import opened_database


class LinkItem(TypedDict):
    """What `console link` prints."""

    link: str
    name: str
    role: str
    expires_at: str


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    console = add_group(commands, "console", "let people into the console, and end their sessions")
    link = add_command(
        console,
        "link",
        _link,
        "print a link that opens the console once, within ten minutes",
        examples=[
            "console link --as ann --role operator",
            "console link --as ben --role viewer --url https://verifyd.example.com",
        ],
    )
    link.add_argument("--as", dest="name", required=True, metavar="NAME", help="name of the person")
    link.add_argument(
        "--role",
        required=True,
        choices=[role.value for role in Role],
        help="viewer reads, operator also changes, auditor also reads the audit trail",
    )
    link.add_argument(
        "--url",
        type=_url,
        metavar="URL",
        help="address of the service, if people reach it under another one than the link has",
    )
    end = add_command(
        console,
        "end",
        _end,
        "end the sessions of a person, or of everybody, and withdraw their links",
        examples=["console end ann", "console end"],
    )
    end.add_argument("name", metavar="NAME", nargs="?", help="name of the person [everybody]")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError("must be the address of the service: https://HOST")
    return text.rstrip("/")


def link_url(config: Config, token: str, url: str | None = None) -> str:
    """Return the link with a token.

    Args:
        url: the address of the service. By default it is where the console listens or, behind
            nginx on this host, the name of the host.
    """
    if url is None:
        # On an installed host systemd decides where the service listens.
        bind = config.console_bind or next(iter(chosen_by_systemd(config)), config.bind)
        url = f"https://{socket.getfqdn()}" if bind.startswith("unix:") else base_url(bind)
    return f"{url}/console/sign-in/{token}"


def _link(args: argparse.Namespace) -> None:
    config = Config.from_env()
    if not config.console:
        variable = SETTINGS["console"].variable
        raise OperatorError(f"the console is off; set {variable}=on and restart the service")
    with opened_database(config) as engine:
        # Whoever frees a full disk must get in (D57).
        create = partial(create_link, engine, args.name, Role(args.role))
        token = reserve.with_reserve(engine, create)
    item: LinkItem = {
        "link": link_url(config, token, args.url),
        "name": args.name.strip(),
        "role": args.role,
        "expires_at": clock.iso_utc(clock.now() + LINK_SECONDS),
    }
    if args.json:
        print_item(args, item)
    else:
        print(item["link"])
        print(
            f"\nthis link works once, for {LINK_SECONDS // 60} minutes, "
            f"and signs {item['name']} in as {item['role']}"
        )


def _end(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        # Somebody can be shut out on a full disk, too (D57).
        sessions, links = reserve.with_reserve(engine, lambda: end_sessions(engine, args.name))
    ended = {"sessions": sessions, "links": links}
    sentence = f"{counted(sessions, 'session')} ended, {counted(links, 'unused link')} withdrawn"
    print_item(args, ended, sentence)
