"""The shapes of the JSON that the vehicle operations answer with."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from app.vehicles.periods import Until

_T = TypeVar("_T", bool, str, str | None)


# PERF: structs in place of dicts: a bulk of 1,000 takes a tenth less. A member that is UNSET is
# left out; the others are in this order.
class PolicyAnswer(msgspec.Struct, gc=False):
    """The policy object."""

    number: str
    insurer: str | None
    validFrom: str  # noqa: N815 - the wire's spelling, here and below
    validTo: str  # noqa: N815
    type: str | None
    cancelledOn: str | UnsetType | None = UNSET  # noqa: N815


class VehicleAnswer(msgspec.Struct, gc=False):
    """The vehicle object."""

    make: str | None
    model: str | None
    year: int | None
    color: str | None


class FourChecks(msgspec.Struct, Generic[_T], gc=False):
    """Something about each of the four checks."""

    insuranceValid: _T  # noqa: N815
    motValid: _T  # noqa: N815
    roadTaxPaid: _T  # noqa: N815
    noOutstandingFines: _T  # noqa: N815


ChecksAnswer = FourChecks[bool]
"""Whether the vehicle passes each check."""
ReasonsAnswer = FourChecks[str]
"""The reason of each check."""


class InsuranceReason(msgspec.Struct, gc=False):
    """The reason of the only check that an answer about insurance makes."""

    insuranceValid: str  # noqa: N815


Unknown = tuple[str, ...] | UnsetType
"""The names of the members whose outcome no register knows (D198)."""


class PeriodAnswer(msgspec.Struct, gc=False):
    """Whether a vehicle is insured or road-legal throughout a period, and if not, why."""

    firstDay: str  # noqa: N815
    lastDay: str  # noqa: N815
    validThroughout: bool | UnsetType = UNSET  # noqa: N815
    firstFailingDay: str | UnsetType = UNSET  # noqa: N815
    reasons: ReasonsAnswer | InsuranceReason | UnsetType = UNSET
    tooManyPolicies: bool | UnsetType = UNSET  # noqa: N815
    unknown: Unknown = UNSET


class InsuranceLoaded(msgspec.Struct, gc=False):
    """When the register that decided the only check of an answer about insurance was loaded."""

    insuranceValid: str | None  # noqa: N815


class InsuranceDates(msgspec.Struct, kw_only=True, gc=False):
    """What an answer about insurance tells of later days, after its own members."""

    loaded: FourChecks[str | None] | InsuranceLoaded | UnsetType = UNSET
    """When the registers that decided were last loaded; null if none did."""
    period: PeriodAnswer | UnsetType = UNSET
    insuredUntil: Until = UNSET  # noqa: N815
    tooManyPolicies: bool | UnsetType = UNSET  # noqa: N815


class ComplianceDates(InsuranceDates, kw_only=True, gc=False):
    """What an answer about compliance tells of later days."""

    compliantUntil: Until = UNSET  # noqa: N815
    motExpiry: str | UnsetType | None = UNSET  # noqa: N815
    motExempt: bool | UnsetType | None = UNSET  # noqa: N815
    firstRegistered: str | UnsetType | None = UNSET  # noqa: N815
    taxStatus: str | UnsetType | None = UNSET  # noqa: N815
    taxDue: str | UnsetType | None = UNSET  # noqa: N815
    finesOutstanding: int | UnsetType | None = UNSET  # noqa: N815


class InsuranceAnswer(InsuranceDates, gc=False):
    """The insurance record."""

    registration: str
    insured: bool
    policy: PolicyAnswer | None
    vehicle: VehicleAnswer
    lastUpdated: str  # noqa: N815
    asOf: str | UnsetType = UNSET  # noqa: N815
    unknown: Unknown = UNSET
    policies: list[PolicyAnswer] | UnsetType = UNSET
    policiesTruncated: bool | UnsetType = UNSET  # noqa: N815


class ComplianceAnswer(ComplianceDates, gc=False):
    """The compliance record."""

    registration: str
    compliant: bool
    checks: ChecksAnswer
    lastChecked: str  # noqa: N815
    reasons: ReasonsAnswer | UnsetType = UNSET
    asOf: str | UnsetType = UNSET  # noqa: N815
    unknown: Unknown = UNSET


class SuggestionAnswer(msgspec.Struct, gc=False):
    """A known plate that an unknown one may be a misreading of."""

    registration: str
    make: str | None
    model: str | None
    color: str | None


class FailureAnswer(NamedTuple):
    """Why there is no answer for a plate, in a bulk look-up."""

    error: str
    code: str


class InsuranceItem(InsuranceDates, gc=False):
    """Whether one plate of a list is insured, or why it has no answer."""

    registration: str
    insured: bool
    policy: PolicyAnswer | UnsetType | None = UNSET
    unknown: Unknown = UNSET
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    vehicle: VehicleAnswer | UnsetType = UNSET
    lastUpdated: str | UnsetType = UNSET  # noqa: N815


class ComplianceItem(ComplianceDates, gc=False):
    """Whether one plate of a list is road-legal, or why it has no answer."""

    registration: str
    compliant: bool
    checks: ChecksAnswer | UnsetType = UNSET
    reasons: ReasonsAnswer | UnsetType = UNSET
    unknown: Unknown = UNSET
    error: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    vehicle: VehicleAnswer | UnsetType = UNSET
    lastUpdated: str | UnsetType = UNSET  # noqa: N815


ToldVerdict = tuple[bool | None, Unknown]
"""What an answer says about a plate, and the members that it does not know."""
Items = Sequence[InsuranceItem] | Sequence[ComplianceItem]


class BulkAnswer(msgspec.Struct, gc=False):
    """The answer of a bulk operation."""

    results: Items
    processed: int
    successful: int
    failed: int
    asOf: str | UnsetType = UNSET  # noqa: N815
