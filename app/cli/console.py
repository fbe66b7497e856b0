"""`verifyd console`: links that open the console, and the end of its sessions."""

import argparse
import socket

from app import clock
from app.alerts.certificate import host_of
from app.arguments import Argument
from app.cli.output import print_item
from app.cli.parser import Group
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.people.sessions import LINK_SECONDS, create_link, end_sessions
from app.serve.listening import chosen_by_systemd
from app.settings.roles import Role
from app.settings.values import service_url
from app.storage import reserve
from app.storage.session import opened_database
from app.text import counted

commands = Group("console", "let people into the console, and end their sessions")


def base_url(bind: str) -> str:
    """Return where a client on this host finds the service."""
    if bind.startswith("unix:"):
        return "http://localhost"
    address, _, port = bind.rpartition(":")
    if address in ("0.0.0.0", "[::]"):  # noqa: S104 - read, not bound
        address = "127.0.0.1"
    return f"http://{address}:{port}"


def link_url(config: Config, token: str, url: str | None = None) -> str:
    """Return the link with a token.

    Args:
        url: the address of the service. By default that of the settings, that of the console's
            listener or, behind nginx on this host, the name in the certificate or of the host.

    SEC: never the `Host` of a request, because who opens the link is signed in there.
    """
    url = url or config.console_url
    if not url:
        # On an installed host systemd decides where the service listens.
        bind = config.console_bind or next(iter(chosen_by_systemd(config)), config.bind)
        url = base_url(bind)
        if bind.startswith("unix:"):  # Behind nginx.
            url = f"https://{host_of(config.certificate) or socket.getfqdn()}"
    return f"{url}/console/sign-in/{token}"


@commands.command(
    "link",
    "print a link that opens the console once, within ten minutes",
    Argument("--as NAME", "name of the person", dest="name", required=True),
    Argument(
        "--role",
        "clerk only looks up, viewer also reads, operator also changes, auditor also reads the "
        "audit trail",
        required=True,
        choices=[role.value for role in Role],
    ),
    Argument(
        "--url URL",
        "address of the service, if people reach it under another one than the link has",
        type=service_url,
    ),
    examples=[
        "console link --as ann --role operator",
        "console link --as ben --role viewer --url https://verifyd.example.com",
    ],
)
def _link(args: argparse.Namespace) -> None:
    config = Config.from_env()
    if not config.console:
        variable = SETTINGS["console"].variable
        raise OperatorError(f"the console is off; set {variable}=on and restart the service")
    with opened_database(config) as engine:
        # Also on a full disk: the person who frees the disk may need the console (D57).
        token = reserve.with_reserve(engine, create_link, engine, args.name, Role(args.role))
    name, link = args.name.strip(), link_url(config, token, args.url)
    members = {
        "link": link,
        "name": name,
        "role": args.role,
        "expires_at": clock.iso_utc(clock.now() + LINK_SECONDS),
    }
    duration = f"{LINK_SECONDS // 60} minutes"
    sentence = f"this link works once, for {duration}, and signs {name} in as {args.role}"
    print_item(args, members, sentence, text=[link])


@commands.command(
    "end",
    "end the sessions of a person, or of everybody, and withdraw their links",
    Argument("NAME", "name of the person [everybody]", nargs="?"),
    examples=["console end ann", "console end"],
)
def _end(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        sessions, links = reserve.with_reserve(engine, end_sessions, engine, args.name)
    ended = {"sessions": sessions, "links": links}
    sentence = f"{counted(sessions, 'session')} ended, {counted(links, 'unused link')} withdrawn"
    print_item(args, ended, sentence)
