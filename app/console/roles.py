"""Who may do what in the console (D133)."""

from collections.abc import Mapping
from enum import StrEnum


class Right(StrEnum):
    """What a page or an action needs."""

    READ = "read"
    CHANGE = "change"
    AUDIT = "audit"
    """Reading the audit trail, which shows who asked about which vehicle."""


class Role(StrEnum):
    """What a person is in the console, as `verifyd console link --role` names it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    AUDITOR = "auditor"


RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.OPERATOR: frozenset({Right.READ, Right.CHANGE}),
    Role.AUDITOR: frozenset({Right.READ, Right.AUDIT}),
}
"""The rights of each role. An operator cannot read the audit trail, which also holds operators to
account; an auditor changes nothing."""
