"""Says which registers decided each check, and when these were last loaded."""

from collections.abc import Iterable, Mapping

from app.storage.tables import Kind
from app.vehicles.compliance import Judgement, Verdict, begun_in, insured_on
from app.vehicles.facts import Record

LoadTimes = Mapping[tuple[str, Kind], int]
"""When each kind of each register was last loaded, in Unix seconds."""


def insurance_loaded(record: Record, verdict: Verdict, day: str, times: LoadTimes) -> int | None:
    """Return when the registers were loaded that decided whether a vehicle is insured on a day.

    Of several it is the oldest time; None if none decided, or if no load is known.

    Args:
        record: of a look-up that asked for dates.
        times: of the registers that were read.
    """
    kind, registers = insurance_decided_by(record, verdict, day)
    return _oldest(registers, kind, times)


def insurance_decided_by(record: Record, verdict: Verdict, day: str) -> tuple[Kind, Iterable[str]]:
    """Return the kind of the rows that decided whether a vehicle is insured, and their registers.

    Args:
        record: of a look-up that asked for dates.
    """
    basis, policy = record.basis, record.policy
    if not verdict.is_known:
        return Kind.POLICIES, ()
    if policy is not None and (basis is None or verdict.is_good):
        return Kind.POLICIES, [name for name, its in record.rows.policies if its == policy][:1]
    if insured_on(record, day) is not None:
        return Kind.VEHICLES, _that_knows(record, "insured")
    if basis is None:
        return Kind.POLICIES, ()
    is_past = day < basis.today
    return Kind.POLICIES, begun_in(record, day, basis) if is_past else basis.complete


def checks_loaded(
    record: Record, judgement: Judgement, day: str, times: LoadTimes
) -> tuple[int | None, int | None, int | None, int | None]:
    """Return for each check what `insurance_loaded` returns for the insurance."""
    insurance, mot, tax, fines = judgement
    owed = [name for name, fine in record.rows.fines if not fine.settled]
    if not owed and fines.is_known:
        owed = [name for name, kind in times if kind == Kind.FINES]
    return (
        insurance_loaded(record, insurance, day, times),
        _oldest(mot_decided_by(record, mot, day), Kind.VEHICLES, times),
        _oldest(_that_knows(record, "tax_status") if tax.is_known else (), Kind.VEHICLES, times),
        _oldest(owed, Kind.FINES, times),
    )


def mot_decided_by(record: Record, verdict: Verdict, day: str) -> Iterable[str]:
    """Return the registers that decided about the MOT.

    Args:
        record: of a look-up that asked for dates.
    """
    basis = record.basis
    known = [
        (name, its)
        for name, its in record.rows.vehicles
        if basis is None or basis.first_day(its.updated) <= day
    ]
    match verdict.reason:
        case "exempt":
            return [name for name, its in known if its.mot_exempt]
        case "valid":
            latest = max(its.mot_expiry for _, its in known if its.mot_expiry)
            return [name for name, its in known if its.mot_expiry == latest]
        case "expired":
            return [n for n, its in record.rows.vehicles if its.mot_expiry == record.mot_expiry]
        case "not_due":
            return _that_knows(record, "first_registered")
    return ()


def _that_knows(record: Record, column: str) -> list[str]:
    """Return the first register that knows a column of the vehicle; none if no register does."""
    return [n for n, its in record.rows.vehicles if getattr(its, column) is not None][:1]


def _oldest(registers: Iterable[str], kind: Kind, times: LoadTimes) -> int | None:
    return min((times[name, kind] for name in registers if (name, kind) in times), default=None)
