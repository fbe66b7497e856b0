"""The roles of people in the console, and their rights."""

from collections.abc import Mapping
from enum import StrEnum


class Right(StrEnum):
    """A right that a page or an action needs."""

    LOOK_UP = "look-up"
    READ = "read"
    CHANGE = "change"
    AUDIT = "audit"
    """Reading the audit trail, which shows who asked about which vehicle."""


class Role(StrEnum):
    """The role of a person in the console, as in `verifyd console link --role`."""

    CLERK = "clerk"
    VIEWER = "viewer"
    OPERATOR = "operator"
    AUDITOR = "auditor"


RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.CLERK: frozenset({Right.LOOK_UP}),
    Role.VIEWER: frozenset({Right.LOOK_UP, Right.READ}),
    Role.OPERATOR: frozenset({Right.LOOK_UP, Right.READ, Right.CHANGE}),
    Role.AUDITOR: frozenset({Right.LOOK_UP, Right.READ, Right.AUDIT}),
}
"""The rights of each role. An operator cannot read the audit trail, which also holds operators to
account; an auditor changes nothing. A clerk looks plates up all day: one page is easier to learn,
and accounts, keys and actions are not theirs to see."""
