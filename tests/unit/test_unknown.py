"""What no register knows is neither good nor bad, today and on other days (D198)."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.clock import start_of
from app.storage.tables import Kind
from app.vehicles.compliance import Verdict, judge, judge_insurance
from app.vehicles.contradictions import contradicted
from app.vehicles.facts import EXPLAINED, Basis, FineFacts, PolicyFacts, Record, VehicleFacts
from app.vehicles.merging import records_of
from app.vehicles.periods import Period, good_until, judge_period
from app.vehicles.rows import Part, row_of

TODAY = "2026-06-15"
ZONE = ZoneInfo("UTC")
PASSES, FAILS, UNKNOWN = "passes", "fails", "unknown"


def at(day: str, zone: ZoneInfo = ZONE) -> int:
    """Return noon of a day, in Unix seconds."""
    return start_of(date.fromisoformat(day), zone) + 12 * 3600


def vehicle(updated: str = "2026-01-10", **values: Any) -> VehicleFacts:
    """Return a row that says nothing but these values."""
    unknown: dict[str, Any] = dict.fromkeys(VehicleFacts._fields)
    return VehicleFacts(**unknown | {"updated": at(updated)} | values)


def policy(begin: str, end: str, cancelled: str | None = None) -> PolicyFacts:
    """Return a policy."""
    return PolicyFacts("I", "P1", begin, end, None, cancelled, at("2026-01-10"))


FINE = FineFacts("F1", None, 100, None, False, 1)


def record(
    *held: tuple[str, Any],
    day: str = TODAY,
    complete: tuple[str, ...] = (),
    has_fines: bool = True,
    zone: ZoneInfo = ZONE,
    years: int = 0,
) -> Record:
    """Return the record of a plate from rows of registers, in the order of precedence."""
    kinds = {VehicleFacts: Kind.VEHICLES, PolicyFacts: Kind.POLICIES, FineFacts: Kind.FINES}
    rows = [
        (Part(name, kinds[type(facts)]), [row_of(kinds[type(facts)], "P", facts)])
        for name, facts in held
    ]
    basis = Basis(TODAY, zone, complete, has_fines)
    return records_of(rows, day, {"*": years}, EXPLAINED, basis)["P"]


def outcome(verdict: Any) -> str:
    """Return the outcome of a verdict in a word."""
    if not verdict.is_known:
        return UNKNOWN
    return PASSES if verdict.is_good else FAILS


YES, NO, SILENT = vehicle(insured=True), vehicle(insured=False), vehicle()
ENDED = policy("2026-01-01", "2026-05-31")
BEGINS = policy("2026-07-01", "2027-06-30")
COVERS = policy("2026-01-01", "2026-12-31")
LONG_AGO, TOMORROW = "2010-03-01", "2026-06-16"


@pytest.mark.parametrize(
    ("held", "complete", "day", "expected"),
    [
        # A policy in force decides, whatever else is known.
        ([NO, COVERS], (), TODAY, (PASSES, "valid")),
        ([SILENT, COVERS], (), "2026-01-01", (PASSES, "valid")),
        # Today: a no fails, a yes counts if no policy is known.
        ([NO], (), TODAY, (FAILS, "none")),
        ([NO, ENDED], (), TODAY, (FAILS, "expired")),
        ([YES], (), TODAY, (PASSES, "flag")),
        ([YES, ENDED], (), TODAY, (UNKNOWN, "expired")),
        ([YES, ENDED], ("r",), TODAY, (UNKNOWN, "expired")),
        ([YES, BEGINS], (), TODAY, (UNKNOWN, "future")),
        ([SILENT], (), TODAY, (UNKNOWN, "unknown")),
        ([SILENT, ENDED], (), TODAY, (UNKNOWN, "expired")),
        # Absence is an answer only in a complete register.
        ([SILENT], ("r",), TODAY, (FAILS, "no_policy")),
        ([SILENT, ENDED], ("r",), TODAY, (FAILS, "expired")),
        ([SILENT], ("r",), TOMORROW, (FAILS, "no_policy")),
        ([SILENT], (), TOMORROW, (UNKNOWN, "unknown")),
        # The past: a replace removes old policies, so that absence says little.
        ([SILENT], ("r",), "2026-06-14", (UNKNOWN, "not_known_then")),
        ([SILENT, BEGINS], ("r",), "2026-06-14", (UNKNOWN, "future")),
        ([SILENT, ENDED], ("r",), "2026-06-14", (FAILS, "expired")),
        ([SILENT, ENDED], ("r",), LONG_AGO, (UNKNOWN, "future")),
        ([SILENT, ENDED], ("another",), "2026-06-14", (UNKNOWN, "expired")),
        # An undated value counts from the change of its row to today.
        ([YES], (), "2026-01-10", (PASSES, "flag")),
        ([YES], (), "2026-01-09", (UNKNOWN, "not_known_then")),
        ([YES], (), LONG_AGO, (UNKNOWN, "not_known_then")),
        ([YES], (), TOMORROW, (UNKNOWN, "not_known_then")),
        ([YES], ("r",), TOMORROW, (UNKNOWN, "not_known_then")),
        ([NO], (), "2026-01-10", (FAILS, "none")),
        ([NO], (), "2026-01-09", (UNKNOWN, "not_known_then")),
        ([YES, ENDED], (), "2026-06-14", (UNKNOWN, "expired")),
        # The first register with a value decides; if it is not known then, no other is asked.
        ([vehicle("2026-06-01", insured=True), NO], (), "2026-05-01", (UNKNOWN, "not_known_then")),
        ([SILENT, NO], (), TODAY, (FAILS, "none")),
        # A time in the future counts as today, and today is always known.
        ([vehicle("2030-01-01", insured=True)], (), TODAY, (PASSES, "flag")),
        (
            [vehicle("2030-01-01", insured=True)],
            (),
            "2026-06-14",
            (UNKNOWN, "not_known_then"),
        ),
    ],
)
def test_insurance(held, complete, day, expected):
    """A vehicle is not insured for certain only if a no, or a complete register, says so."""
    names = [
        (f"r{number}" if number and type(each) is VehicleFacts else "r", each)
        for number, each in enumerate(held)
    ]
    verdict = judge_insurance(record(*names, day=day, complete=complete), day)
    assert (outcome(verdict), verdict.reason) == expected


EXPIRY = vehicle(mot_expiry="2027-03-01")
EXEMPT = vehicle(mot_exempt=True)


@pytest.mark.parametrize(
    ("held", "day", "expected"),
    [
        ([SILENT], TODAY, (UNKNOWN, "unknown")),
        ([vehicle(mot_exempt=False)], TODAY, (UNKNOWN, "unknown")),
        ([EXPIRY], TODAY, (PASSES, "valid")),
        ([EXPIRY], "2027-03-01", (PASSES, "valid")),
        ([EXPIRY], "2027-03-02", (FAILS, "expired")),
        ([EXPIRY], "2026-01-10", (PASSES, "valid")),
        ([EXPIRY], "2026-01-09", (UNKNOWN, "not_known_then")),
        ([EXPIRY], "2016-01-01", (UNKNOWN, "not_known_then")),
        # A day that had passed when it was written fails on later days, and only there.
        ([vehicle(mot_expiry="2025-12-01")], TODAY, (FAILS, "expired")),
        ([vehicle(mot_expiry="2025-12-01")], "2025-12-20", (FAILS, "expired")),
        ([vehicle(mot_expiry="2025-12-01")], "2025-11-30", (UNKNOWN, "not_known_then")),
        # Any register can cover the day; none fails it before the last day that one knows.
        ([EXPIRY, vehicle("2024-02-01", mot_expiry="2025-02-01")], "2024-06-01", (PASSES, "valid")),
        (
            [EXPIRY, vehicle("2024-02-01", mot_expiry="2025-02-01")],
            "2025-06-01",
            (UNKNOWN, "not_known_then"),
        ),
        ([EXEMPT], TODAY, (PASSES, "exempt")),
        ([EXEMPT], "2026-01-10", (PASSES, "exempt")),
        ([EXEMPT], "2026-01-09", (UNKNOWN, "not_known_then")),
        ([EXEMPT], TOMORROW, (UNKNOWN, "not_known_then")),
        ([EXEMPT, EXPIRY], TOMORROW, (PASSES, "valid")),
        # Who is exempt today does not fail tomorrow for an old certificate.
        ([EXEMPT, vehicle(mot_expiry="2020-01-01")], TOMORROW, (UNKNOWN, "not_known_then")),
        # The years of the first MOT hold for every day.
        ([vehicle(first_registered="2024-02-29")], "2025-01-01", (PASSES, "not_due")),
        ([vehicle(first_registered="2024-02-29")], "2027-03-01", (UNKNOWN, "unknown")),
    ],
)
def test_mot(held, day, expected):
    """An MOT is known from the change of its row to its last day, and failed on later days."""
    names = [(f"r{number}", each) for number, each in enumerate(held)]
    verdict = judge(record(*names, day=day, years=3), day).mot
    assert (outcome(verdict), verdict.reason) == expected


@pytest.mark.parametrize(
    ("status", "due", "day", "expected"),
    [
        (None, None, TODAY, (UNKNOWN, "unknown")),
        ("strange", None, TODAY, (UNKNOWN, "unknown")),
        ("taxed", None, TODAY, (PASSES, "valid")),
        ("taxed", None, "2026-01-10", (PASSES, "valid")),
        ("taxed", None, "2026-01-09", (UNKNOWN, "not_known_then")),
        ("taxed", None, TOMORROW, (UNKNOWN, "not_known_then")),
        ("taxed", "2026-08-31", "2026-08-31", (PASSES, "valid")),
        ("taxed", "2026-08-31", "2026-09-01", (FAILS, "expired")),
        ("taxed", "2026-08-31", "2026-01-09", (UNKNOWN, "not_known_then")),
        ("taxed", "2025-08-31", "2025-09-01", (FAILS, "expired")),
        ("exempt", None, TODAY, (PASSES, "exempt")),
        ("exempt", None, TOMORROW, (UNKNOWN, "not_known_then")),
        ("exempt", "2026-08-31", TOMORROW, (PASSES, "exempt")),
        ("sorn", None, TODAY, (FAILS, "sorn")),
        ("sorn", "2025-08-31", TODAY, (FAILS, "sorn")),
        ("sorn", "2025-08-31", "2025-12-01", (UNKNOWN, "not_known_then")),
        ("sorn", "2027-08-31", TOMORROW, (UNKNOWN, "not_known_then")),
        ("untaxed", None, "2026-01-10", (FAILS, "untaxed")),
        ("untaxed", None, TOMORROW, (UNKNOWN, "not_known_then")),
    ],
)
def test_tax(status, due, day, expected):
    """A status without a day counts from the change of its row to today."""
    its = vehicle(tax_status=status, tax_due=due)
    verdict = judge(record(("r", its), day=day), day).tax
    assert (outcome(verdict), verdict.reason) == expected


def test_the_first_register_with_a_tax_status_decides():
    """If its status was not known then, no other register is asked."""
    late = vehicle("2026-06-01", tax_status="taxed")
    early = vehicle("2020-01-01", tax_status="taxed")
    found = record(("a", late), ("b", early), day="2026-05-01")
    assert outcome(judge(found, "2026-05-01").tax) == UNKNOWN


@pytest.mark.parametrize(
    ("held", "has_fines", "expected"),
    [
        ([], True, (PASSES, "none", True)),
        ([], False, (UNKNOWN, "unknown", True)),
        ([FINE], True, (FAILS, "outstanding", False)),
    ],
)
def test_fines(held, has_fines, expected):
    """Without any register of fines there is none that is known, and the check stays good."""
    names = [("r", each) for each in (SILENT, *held)]
    verdict = judge(record(*names, has_fines=has_fines), TODAY).fines
    assert (outcome(verdict), verdict.reason, verdict.is_good) == expected


GOOD = vehicle(mot_expiry="2027-03-01", tax_status="taxed", tax_due="2026-12-31")


@pytest.mark.parametrize(
    ("held", "has_fines", "expected"),
    [
        ([GOOD, COVERS], True, PASSES),
        ([GOOD, COVERS], False, PASSES),
        ([GOOD], True, UNKNOWN),
        ([vehicle(mot_expiry="2025-01-01")], True, FAILS),
        ([SILENT], False, UNKNOWN),
        ([SILENT, FINE], True, FAILS),
    ],
)
def test_compliance(held, has_fines, expected):
    """One failure is enough; the fines alone do not make it unknown."""
    judgement = judge(record(*(("r", each) for each in held), has_fines=has_fines), TODAY)
    assert outcome(judgement) == expected
    assert judgement.is_good == (expected == PASSES)


@pytest.mark.parametrize(
    ("zone", "updated", "first_day"),
    [
        # A day alone is midnight UTC: it counts as that day, west of it too.
        ("America/New_York", start_of(date(2026, 3, 10), ZONE), "2026-03-10"),
        ("Asia/Tokyo", start_of(date(2026, 3, 10), ZONE), "2026-03-10"),
        ("America/New_York", start_of(date(2026, 3, 10), ZONE) + 1, "2026-03-09"),
        ("Asia/Tokyo", start_of(date(2026, 3, 10), ZONE) + 16 * 3600, "2026-03-11"),
        ("UTC", at("2031-01-01"), TODAY),
        # The first and the last second of the calendar, and of it in another zone.
        ("America/New_York", -62_135_596_800, "0001-01-02"),
        ("Asia/Tokyo", -62_135_596_800 - 9 * 3600, "0001-01-02"),
        ("Asia/Tokyo", 253_402_300_799, TODAY),
        ("UTC", 253_402_300_800, TODAY),
    ],
)
def test_the_first_day_of_a_value(zone, updated, first_day):
    """A value is known from the local day of its row's time, at the latest from today."""
    assert Basis(TODAY, ZoneInfo(zone), (), True).first_day(updated) == first_day


@pytest.mark.parametrize(
    ("held", "complete", "period", "expected"),
    [
        ([COVERS], (), ("2026-02-01", "2026-12-31"), (PASSES, None, None)),
        ([COVERS], (), ("2026-02-01", "2027-01-01"), (UNKNOWN, "2027-01-01", "expired")),
        ([COVERS], ("r",), ("2026-02-01", "2027-01-01"), (FAILS, "2027-01-01", "expired")),
        ([YES], (), ("2026-01-01", "2026-02-01"), (UNKNOWN, "2026-01-01", "not_known_then")),
        ([YES], (), ("2026-02-01", TODAY), (PASSES, None, None)),
        ([YES], (), ("2026-02-01", TOMORROW), (UNKNOWN, TOMORROW, "not_known_then")),
        # A certain failure later on stands before an unknown day.
        ([NO], ("r",), ("2026-01-01", "2026-06-20"), (FAILS, "2026-01-10", "none")),
        ([SILENT, ENDED], ("r",), ("2025-12-30", "2026-06-20"), (FAILS, "2026-06-01", "expired")),
        (
            [policy("2026-01-01", "2026-12-31", "2026-04-01")],
            ("r",),
            ("2026-02-01", "2026-05-01"),
            (FAILS, "2026-04-01", "cancelled"),
        ),
    ],
)
def test_periods(held, complete, period, expected):
    """A period fails on its first certain day, and is unknown only if no day fails."""
    names = [("r", each) for each in held]
    found = record(*names, day=period[0], complete=complete)
    told = judge_period(found, Period(*period), judge_insurance)
    day = told.failure and told.failure.day
    reason = told.failure and told.failure.verdict.reason
    in_a_word = UNKNOWN if not told.is_known else PASSES if told.is_valid else FAILS
    assert (in_a_word, day, reason) == expected


@pytest.mark.parametrize("period", [("2025-11-01", "2026-12-05"), (TODAY, TODAY)])
@pytest.mark.parametrize("complete", [(), ("r",)])
def test_a_period_is_judged_day_by_day(period, complete):
    """The days on which a check can change are all that need to be judged."""
    held = [
        ("r", vehicle("2026-02-03", mot_expiry="2026-05-05", tax_status="taxed")),
        ("s", vehicle("2025-12-24", insured=True, mot_exempt=True, tax_status="sorn")),
        ("r", policy("2026-01-01", "2026-03-31", "2026-03-15")),
        ("s", policy("2026-06-01", "2026-07-01")),
    ]
    found = record(*held, day=period[0], complete=complete)
    judges: list[Any] = [judge, judge_insurance]
    for judged in judges:
        days = [
            date.fromordinal(number).isoformat()
            for number in range(
                date.fromisoformat(period[0]).toordinal(),
                date.fromisoformat(period[1]).toordinal() + 1,
            )
        ]
        each = {day: judged(record(*held, day=day, complete=complete), day) for day in days}
        fails = [day for day in days if each[day].fails]
        unknown = [day for day in days if not each[day].is_good and not each[day].fails]
        told = judge_period(found, Period(*period), judged)
        assert (told.failure and told.failure.day) == next(iter(fails + unknown), None)
        assert (told.is_valid, told.is_known) == (not fails + unknown, bool(fails) or not unknown)


@pytest.mark.parametrize(
    ("held", "day", "check", "expected"),
    [
        (NO, TODAY, "insurance", ("b",)),
        (NO, "2026-01-10", "insurance", ("b",)),
        (NO, "2026-01-09", "insurance", ()),
        (NO, TOMORROW, "insurance", ()),
        (vehicle(tax_status="sorn"), TODAY, "tax", ("b",)),
        (vehicle(tax_status="sorn"), "2026-01-09", "tax", ()),
        (vehicle(tax_status="taxed", tax_due="2025-12-31"), "2026-01-09", "tax", ("b",)),
        (vehicle(mot_expiry="2025-12-31"), "2026-01-09", "mot", ("b",)),
    ],
)
def test_a_register_contradicts_by_what_it_knew(held, day, check, expected):
    """What a register did not know for the day does not contradict an answer about it."""
    sure = vehicle("2020-01-01", mot_expiry="2028-01-01", tax_status="taxed", tax_due="2028-01-01")
    found = record(("a", sure), ("a", COVERS), ("b", held), day=day)
    assert getattr(contradicted(found, day, ("a", "b")), check) == expected


def test_until_when_ignores_what_is_not_known_later():
    """The last day counts what is known on the day that is asked for, which must be good."""
    undated = vehicle(insured=True)
    assert good_until(record(("r", undated)), TODAY, judge_insurance) is None
    found = record(("r", undated), day=LONG_AGO)
    assert not good_until(found, LONG_AGO, judge_insurance)
    assert good_until(found, LONG_AGO, judge_insurance) is not None
    covered = record(("r", GOOD), ("r", COVERS))
    assert good_until(covered, TODAY, judge) == "2026-12-31"


def test_without_a_basis_what_is_not_known_fails():
    """By the rule of 1.0.0 no verdict is unknown."""
    found = record(("r", SILENT), has_fines=False).without_basis()
    unknown, none = Verdict(False, "unknown"), Verdict(True, "none")
    assert judge(found, LONG_AGO) == (unknown, unknown, unknown, none)
