"""Judges what a proxy says of people whom the customer's own directory identified (D189)."""

import hmac
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from app.accounts.models import NAME_CHARACTERS_MAX
from app.config import SETTINGS, Config, setting_fault
from app.settings.enquiries import text_fault
from app.settings.roles import Role

EVERYBODY = "everybody"
"""The subject of a record about all people. Nobody can have this name."""


class Person(NamedTuple):
    """A person who may open a session."""

    name: str
    role: Role


class NotIdentified(Exception):
    """A request does not say who somebody is; the message is a sentence that says why.

    Whoever sets the proxy up sees nothing else.
    """


class NoRole(Exception):
    """A person is in no group that has a role; the message is a sentence that says so."""


class Directory(NamedTuple):
    """The directory, as the settings describe it."""

    secret: str
    """What the proxy and the service alone know."""
    roles: Mapping[str, Role]
    """The role of each group. The first group here that a person is in counts."""

    def person(self, secret: str, name: str, groups: str) -> Person:
        """Return the person whom the proxy has identified.

        Args:
            secret: the values of the three headers, as WSGI has them (PEP 3333).
            groups: separated by commas.

        Raises NotIdentified or NoRole.
        """
        if not (secret or name):
            raise NotIdentified("The proxy did not say who you are.")
        if not secret:
            raise NotIdentified("The proxy sent no secret.")
        if not hmac.compare_digest(secret.encode(), self.secret.encode()):
            raise NotIdentified("The proxy sent another secret than the service expects.")
        name = _name(name)
        own = {group.strip() for group in (_text(groups) or "").split(",")}
        role = next((role for group, role in self.roles.items() if group in own), None)
        if role is None:
            raise NoRole(f"You are {name}, and none of your groups may use the console.")
        return Person(name, role)


def directory_of(config: Config) -> Directory | None:
    """Return the directory; None if people sign in by links only."""
    if not config.console_proxy_secret or not config.console_groups:
        return None
    return Directory(config.console_proxy_secret, config.console_groups)


def directory_fault(config: Config) -> str | None:
    """Return why the directory lets nobody in although one of its two settings is set, or None."""
    secret, groups = "console_proxy_secret", "console_groups"
    for given, other in ((secret, groups), (groups, secret)):
        if getattr(config, given) and not getattr(config, other):
            # `verifyd check` reports a wrong setting once: this one may be wrong, and not missing.
            return setting_fault(other, f"must be set because {SETTINGS[given].variable} is")
    return None


def person_of(name: str) -> str:
    """Return the person that a name stands for: names that differ only in case are one person."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).lower())


def _name(value: str) -> str:
    """Return the name that a header holds. Raises NotIdentified."""
    if not value:
        raise NotIdentified("The proxy sent no name.")
    name = _text(value)
    if name is None:
        raise NotIdentified("The name that the proxy sent is not UTF-8.")
    name = person_of(name)
    if fault := text_fault(name, NAME_CHARACTERS_MAX):
        raise NotIdentified(f"The name that the proxy sent {fault}.")
    # It is the subject of the record about all people.
    if name == EVERYBODY:
        raise NotIdentified(f"The name that the proxy sent, {EVERYBODY}, stands for all people.")
    # SEC: servers join the values of a header that was sent twice.
    if "," in name:
        raise NotIdentified("The name that the proxy sent has a comma, as if it were two.")
    return name


def _text(value: str) -> str | None:
    """Return a value of WSGI as text; None if it is not UTF-8."""
    try:
        return unicodedata.normalize("NFC", value.encode("latin-1").decode())
    except UnicodeDecodeError:
        return None
