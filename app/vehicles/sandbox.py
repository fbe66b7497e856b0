"""The vehicles of a sandbox, in place of registers.

One table says what each plate shows. Its days count from today, so each plate shows the same every
day. What is known is merged and judged as if registers had it. Plates that provoke errors are in
`app.serve.sandbox_errors`.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from app import clock
from app.settings.values import EVERY_REGISTER
from app.storage.engine import Row
from app.storage.registers import TELLS_UNKNOWN
from app.storage.tables import Kind
from app.vehicles.compliance import Judgement, judge
from app.vehicles.deciding import LoadTimes
from app.vehicles.facts import (
    EVERYTHING,
    EXPLAINED,
    Basis,
    FineFacts,
    PolicyFacts,
    Record,
    VehicleFacts,
    WantedFields,
)
from app.vehicles.merging import records_of
from app.vehicles.records import Read
from app.vehicles.rows import REGISTRATION, Part, Rows, row_of

_REGISTER = "sandbox"
_MOT_FIRST_YEARS = {EVERY_REGISTER: 3}


class Term(NamedTuple):
    """A policy, by its days from today."""

    first_day: int = -100
    last_day: int = 264
    cancelled: int | None = None
    insurer: str = "Sandbox Mutual"
    """Empty if nobody knows."""
    type: str | None = "comprehensive"


class Car(NamedTuple):
    """What is known of a vehicle, by days from today. By default everything is in order."""

    policies: tuple[Term, ...] = (Term(),)
    insured: bool | None = None
    mot_expiry: int | None = 200
    mot_exempt: bool | None = False
    registered: int | None = -3_000
    """For the first time; None if make, model, year and color are not known either."""
    tax_status: str | None = "taxed"
    tax_due: int | None = 150
    fine: bool | None = None
    """Whether a fine is settled; None if there is none."""
    is_complete: bool = True
    """Whether a register holds every policy of it."""
    has_fines: bool = True
    """Whether a register has fines."""
    age: int = 400
    """How many days ago its rows changed, if answers tell what is not known."""


class SandboxPlate(NamedTuple):
    """A plate, in its canonical form, and what it shows."""

    plate: str
    text: str
    car: Car | None
    """None if the plate is not known."""


_UNKNOWN = Car((), None, None, None, None, None, None, is_complete=False)
_NO_DETAILS = Term(insurer="", type=None)
_GAP = (Term(-354, 10), Term(21, 385))
_OLD = Car(mot_expiry=None, mot_exempt=True, registered=-20_000, tax_status="exempt", tax_due=None)

VEHICLES: Final = (
    SandboxPlate("TESTOK", "insured and road-legal", Car()),
    SandboxPlate("TESTLAPSED", "the policy ended yesterday", Car((Term(-365, -1),))),
    SandboxPlate("TESTFUTURE", "the policy begins tomorrow", Car((Term(1, 365),))),
    SandboxPlate("TESTCANCEL", "the policy was cancelled a week ago", Car((Term(cancelled=-7),))),
    SandboxPlate("TESTTWO", "two policies are in force", Car((Term(), Term(-10, 354)))),
    SandboxPlate(
        "TESTGAP", "insured today and for ten more days, then not for ten days", Car(_GAP)
    ),
    SandboxPlate("TESTMANY", "101 policies are in force: `tooManyPolicies`", Car((Term(),) * 101)),
    SandboxPlate("TESTFLAG", "a register says insured; no policy is known", Car((), insured=True)),
    SandboxPlate(
        "TESTNONE", "a register says not insured; no policy is known", Car((), insured=False)
    ),
    SandboxPlate("TESTBLANK", "a register knows the plate, and nothing else", _UNKNOWN),
    SandboxPlate(
        "TESTPOLICY", "only a policy is known", _UNKNOWN._replace(policies=(_NO_DETAILS,))
    ),
    SandboxPlate("TESTNOMOT", "the MOT expired yesterday", Car(mot_expiry=-1)),
    SandboxPlate("TESTEXEMPT", "exempt from MOT and road tax", _OLD),
    SandboxPlate(
        "TESTYOUNG", "a young car: no MOT is due yet", Car(mot_expiry=None, registered=-400)
    ),
    SandboxPlate("TESTSORN", "declared off the road", Car(tax_status="sorn", tax_due=None)),
    SandboxPlate("TESTUNTAXED", "not taxed", Car(tax_status="untaxed", tax_due=None)),
    SandboxPlate("TESTTAXDUE", "the road tax was paid until yesterday", Car(tax_due=-1)),
    SandboxPlate("TESTFINE", "a fine is outstanding", Car(fine=False)),
    SandboxPlate("TESTPAID", "a fine was paid", Car(fine=True)),
    SandboxPlate("TEST404", "not found, like every other plate", None),
    SandboxPlate(
        "TEST0K", "not found: a zero in place of the letter O of TESTOK, which is suggested", None
    ),
)
"""A plate for each outcome of a look-up, and for each reason of a check."""
_UNDATED = Car(
    (),
    insured=True,
    mot_expiry=None,
    mot_exempt=True,
    tax_due=None,
    is_complete=False,
    age=1,
)
VEHICLES_UNKNOWN: Final = (
    SandboxPlate(
        "TESTUNKINS", "no policy is known, and not whether one is", Car((), is_complete=False)
    ),
    SandboxPlate("TESTUNKMOT", "no MOT is known, and not whether one is due", Car(mot_expiry=None)),
    SandboxPlate("TESTUNKTAX", "no road tax is known", Car(tax_status=None, tax_due=None)),
    SandboxPlate("TESTUNKFINE", "no register has fines", Car(has_fines=False)),
    SandboxPlate(
        "TESTPARTIAL",
        "the only policy that is known ended yesterday; there may be another",
        Car((Term(-365, -1),), is_complete=False),
    ),
    SandboxPlate("TESTNOPOLICY", "a register that holds every policy has none", Car(())),
    SandboxPlate("TESTTHEN", "all is known since yesterday, and nothing for other days", _UNDATED),
)
"""Plates that exist only if answers tell what is not known: a program can see the rule by them."""
_CARS: Final = {each.plate: each.car for each in (*VEHICLES, *VEHICLES_UNKNOWN) if each.car}


def judged(today: date, *, tells_unknown: bool) -> Iterator[tuple[SandboxPlate, Judgement | None]]:
    """Yield each plate of the table, and its verdicts; None if it is not known."""
    day = today.isoformat()
    records = _records(today, UTC, day, EXPLAINED, tells_unknown=tells_unknown)
    for each in (*VEHICLES, *VEHICLES_UNKNOWN) if tells_unknown else VEHICLES:
        record = records.get(each.plate)
        yield each, judge(record, day) if record else None


class SandboxRecords:
    """Reads plates from the table, as `Records` reads them from the registers.

    Args:
        zone: the time zone that decides which day it is.
        is_for_watches: as that of `Records`.
    """

    def __init__(self, zone: tzinfo, *, is_for_watches: bool = False) -> None:
        self._zone = zone
        self._is_for_watches = is_for_watches

    def find_records(
        self,
        registers: str,
        registrations: Sequence[str],
        day: str,
        wanted: WantedFields = EVERYTHING,
    ) -> tuple[dict[str, Record], Read]:
        """Return the known ones among plates, and that no register was read."""
        today = clock.today(self._zone)
        tells = registers.endswith(TELLS_UNKNOWN)
        asked = frozenset(registrations)
        zone = None if self._is_for_watches else self._zone
        return _records(today, zone, day, wanted, asked, tells_unknown=tells), {}


def load_times(_: str) -> LoadTimes:
    """Return when the table was loaded: as today began in UTC."""
    loaded_at = clock.start_of(clock.today(UTC), UTC)
    return {(_REGISTER, kind): loaded_at for kind in Kind}


def _records(
    today: date,
    zone: tzinfo | None,
    day: str,
    wanted: WantedFields,
    asked: Collection[str] | None = None,
    *,
    tells_unknown: bool,
) -> dict[str, Record]:
    """Return the records of plates of the table.

    Args:
        today: in the zone.
        zone: None if what is not known is a failure, as to watches.
        asked: by default all plates.
    """
    rows = [
        (part, [row for row in its if asked is None or row[REGISTRATION] in asked])
        for part, its in holdings(today, tells_unknown=tells_unknown)
    ]
    if zone is None or not tells_unknown:
        return records_of(rows, day, _MOT_FIRST_YEARS, wanted)
    basis = Basis(today.isoformat(), zone, (_REGISTER,), has_fines=True)
    records = records_of(rows, day, _MOT_FIRST_YEARS, wanted, basis)
    for plate, record in records.items():
        car = _CARS[plate]
        complete = basis.complete if car.is_complete else ()
        its = basis._replace(complete=complete, has_fines=car.has_fines)
        records[plate] = msgspec.structs.replace(record, basis=its)
    return records


@lru_cache(4)
def holdings(today: date, *, tells_unknown: bool = False) -> Rows:
    """Return what is known about the plates of the table on a day."""
    vehicles = (*VEHICLES, *VEHICLES_UNKNOWN) if tells_unknown else VEHICLES
    # In no time zone later than now.
    held = [
        row
        for each in vehicles
        if each.car
        for row in _rows_of(each.plate, each.car, today, each.car.age if tells_unknown else 1)
    ]
    return [
        (Part(_REGISTER, kind), [row for of_kind, row in held if of_kind == kind]) for kind in Kind
    ]


def _rows_of(plate: str, car: Car, today: date, age: int) -> Iterator[tuple[Kind, Row]]:
    def day(days: int | None) -> str | None:
        return None if days is None else (today + timedelta(days)).isoformat()

    updated = clock.start_of(today - timedelta(age), UTC)
    registered = day(car.registered)
    vehicle = VehicleFacts(
        make=registered and "Ford",
        model=registered and "Focus",
        year=int(registered[:4]) if registered else None,
        color=registered and "Blue",
        insured=car.insured,
        mot_expiry=day(car.mot_expiry),
        mot_exempt=car.mot_exempt,
        first_registered=registered,
        tax_status=car.tax_status,
        tax_due=day(car.tax_due),
        updated=updated,
    )
    policies = sorted(
        PolicyFacts(
            insurer=each.insurer,
            number=f"{plate}-{number}",
            valid_from=str(day(each.first_day)),
            valid_to=str(day(each.last_day)),
            type=each.type,
            cancelled_on=day(each.cancelled),
            updated=updated,
        )
        for number, each in enumerate(car.policies, 1)
    )
    fine = FineFacts(f"{plate}-1", day(-60), 7_000, "GBP", bool(car.fine), updated)
    fines = [] if car.fine is None else [fine]
    yield Kind.VEHICLES, row_of(Kind.VEHICLES, plate, vehicle)
    yield from ((Kind.POLICIES, row_of(Kind.POLICIES, plate, each)) for each in policies)
    yield from ((Kind.FINES, row_of(Kind.FINES, plate, each)) for each in fines)
