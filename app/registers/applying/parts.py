"""What the rows of one kind say about plates, and the answers that the kinds make together.

The answer about a plate depends on nothing but its three parts. So a change of one kind matters
only if it changes that kind's part.

PERF: millions of plates have few different inputs of a check. Each of these is judged once; the
others take 0.1 us.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial, reduce
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from app.registers.bounded_cache import BoundedCache
from app.storage.engine import Row
from app.storage.tables import FineRow, Kind, PolicyRow, VehicleRow
from app.vehicles.compliance import judge_insurance, judge_mot, judge_tax
from app.vehicles.facts import Record, covers
from app.vehicles.merging import first, first_pair, greatest, years_of
from app.vehicles.policies import choose_policy

_INPUTS_KEPT = 1 << 16
"""Of each check, the inputs whose verdicts are remembered."""


class PlateAnswer(NamedTuple):
    """The answer about a plate: whether it is known, passes each check, and passes all of them."""

    known: bool
    insured: bool
    mot: bool
    tax: bool
    fines: bool
    compliant: bool


class PlatePart(NamedTuple):
    """What the rows of one kind, in all registers, say about a plate; by itself: about any."""

    known: bool = False
    insured: bool = False
    mot: bool = False
    tax: bool = False
    fines: bool = True
    """Whether nothing is owed."""
    insurer: str | None = None
    """The insurer that covers the plate; None if it is not insured, or by no policy."""

    @property
    def answer(self) -> PlateAnswer:
        """What is answered if nothing else is known of the plate."""
        return PlateAnswer(*self[:5], compliant=all(self[1:5]))


UNKNOWN = PlatePart(fines=False)
"""The answer about a plate that no register knows: it passes no check."""
NOTHING = PlatePart()
"""The part of a kind of which no register has a row."""


@lru_cache(_INPUTS_KEPT)
def joined(vehicles: PlatePart, policies: PlatePart, fines: PlatePart) -> PlatePart:
    """Return the answer about a plate."""
    if not (vehicles.known or policies.known or fines.known):
        return UNKNOWN
    insurance = policies if policies.known else vehicles
    return PlatePart(
        known=True,
        insured=insurance.insured,
        mot=vehicles.mot,
        tax=vehicles.tax,
        fines=fines.fines,
        insurer=insurance.insurer,
    )


RowsByPlate = Sequence[Sequence[Row]]
"""For each plate its rows in one table, with the table's columns; there may be none."""


class Judge:
    """Judges plates by their rows in all registers, on one day.

    Args:
        day: ISO date to judge by.
        mot_first_years: years after first registration before an MOT is due, by register (D154).
    """

    def __init__(self, day: str, mot_first_years: Mapping[str, int]) -> None:
        self._day = day
        self._years = mot_first_years
        self._is_insured = {
            insured: judge_insurance(_record(insured=insured), day).is_good
            for insured in (None, False, True)
        }
        self._has_mot = BoundedCache(self._judged_mot)
        self._is_taxed = BoundedCache(self._judged_tax)

    def parts(self, kind: Kind, held: Mapping[str, RowsByPlate], plates: int) -> list[PlatePart]:
        """Return the part of each plate.

        Args:
            held: the rows of the kind by register, in the order of precedence.
            plates: how many plates there are.
        """
        if not held:
            return [NOTHING] * plates
        if kind == Kind.VEHICLES:
            return self._of_vehicles(held)
        if kind == Kind.FINES:
            return list(map(_part_of_fines, _of_plates(held.values())))
        return self._of_policies(held)

    def _of_vehicles(self, held: Mapping[str, RowsByPlate]) -> list[PlatePart]:
        rows = [[each[0] if each else _NO_VEHICLE for each in found] for found in held.values()]

        def merged(known_by: Callable[[Row], Any], merge: _Merge) -> Iterable[Any]:
            return _merged((map(known_by, found) for found in rows), merge)

        first_years = [years_of(register, self._years) for register in held]
        dated: Iterable[tuple[str | None, int] | None] = repeat(None)
        if any(first_years):
            pairs = (
                [(_FIRST_REGISTERED(row), years) for row in found]
                for years, found in zip(first_years, rows, strict=True)
            )
            dated = _merged(pairs, first_pair)
        mot = zip(merged(_MOT_EXPIRY, greatest), merged(_MOT_EXEMPT, greatest), dated)  # noqa: B905
        known = map(any, zip(*held.values(), strict=True))
        insured = map(self._is_insured.__getitem__, merged(_INSURED, first))
        has_mot = map(self._has_mot.__getitem__, mot)
        taxed = map(self._is_taxed.__getitem__, merged(_TAX, first_pair))
        return list(map(_part_of_vehicle, known, insured, has_mot, taxed))

    def _judged_mot(
        self, inputs: tuple[str | None, bool | None, tuple[str | None, int] | None]
    ) -> bool:
        expiry, is_exempt, registered = inputs
        day, years = registered or (None, 0)
        record = _record(
            mot_expiry=expiry, mot_exempt=is_exempt, first_registered=day, mot_first_years=years
        )
        return judge_mot(record, self._day).is_good

    def _judged_tax(self, inputs: tuple[str | None, str | None]) -> bool:
        status, due = inputs
        return judge_tax(_record(tax_status=status, tax_due=due), self._day).is_good

    def _of_policies(self, held: Mapping[str, RowsByPlate]) -> list[PlatePart]:
        in_order = (
            [sorted(rows, key=_key_of) if len(rows) > 1 else rows for rows in found]
            for found in held.values()
        )
        chosen = [
            choose_policy(rows, self._day, _terms_of) if rows else None
            for rows in _of_plates(in_order)
        ]
        return [
            _part_of_policy(policy[_INSURER] if covers(_terms_of(policy), self._day) else None)
            if policy
            else NOTHING
            for policy in chosen
        ]


_VEHICLE, _POLICY = VehicleRow._fields.index, PolicyRow._fields.index
_NO_VEHICLE: Row = (None,) * len(VehicleRow._fields)
_INSURED, _MOT_EXPIRY, _MOT_EXEMPT, _FIRST_REGISTERED = (
    itemgetter(_VEHICLE(name))
    for name in ("insured", "mot_expiry", "mot_exempt", "first_registered")
)
_TAX = itemgetter(_VEHICLE("tax_status"), _VEHICLE("tax_due"))
_INSURER = _POLICY("insurer")
_key_of = itemgetter(*map(_POLICY, ("insurer", "number", "valid_from")))
_terms_of = itemgetter(*map(_POLICY, ("valid_from", "valid_to", "cancelled_on", "number")))
_SETTLED = itemgetter(FineRow._fields.index("settled"))
_record = partial(Record, registration="", updated=0, policy=None, insured=None)
_Merge = Callable[[Any, Any], Any]


def _merged(of_registers: Iterable[Iterable[Any]], merge: _Merge) -> Iterable[Any]:
    """Merge what each register says of each plate, in the order of precedence (D26)."""
    return reduce(lambda one, other: map(merge, one, other), of_registers)


def _of_plates(held: Iterable[RowsByPlate]) -> Iterable[Sequence[Row]]:
    """Return the rows of each plate in all registers, in the order of precedence."""
    return map(tuple, map(chain.from_iterable, zip(*held, strict=True)))


@cache
def _part_of_vehicle(known: bool, insured: bool, mot: bool, tax: bool) -> PlatePart:
    return PlatePart(known, insured, mot, tax) if known else NOTHING


@lru_cache(_INPUTS_KEPT)
def _part_of_policy(insurer: str | None) -> PlatePart:
    """Return the part of a policy in force, or of one that is not."""
    return PlatePart(known=True, insured=insurer is not None, insurer=insurer)


def _part_of_fines(fines: Sequence[Row]) -> PlatePart:
    return _FINE_PARTS[all(map(_SETTLED, fines))] if fines else NOTHING


_FINE_PARTS = {settled: PlatePart(known=True, fines=settled) for settled in (True, False)}
