"""The demo register: reproducible, realistic, and with a plate for each case (D22)."""

import csv
import re
from collections import Counter, defaultdict
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.demo import SAMPLE_PLATES, DemoRegister, demo_register, write_files
from app.vehicles.registration import canonical_registration
from tests.rows import each_row

DAYS = [date(2026, 12, 31), date(2028, 2, 29)]


class Book:
    """A demo register with its rows by registration, judged by plain date arithmetic."""

    def __init__(self, today: date) -> None:
        self.today = today
        self.register = demo_register(today)
        self.vehicles: dict[Any, dict[str, Any]] = {
            row["registration"]: row for row in self.register.vehicles
        }
        self.policies = by_registration(self.register.policies)
        self.fines = by_registration(self.register.fines)

    def insurance(self, plate):
        """Return the reason of D22 for `insuranceValid`; `overlapping` if several are in force."""
        rows, today = self.policies.get(plate), self.today.isoformat()
        if not rows:
            return {True: "flag", False: "none", None: "unknown"}[self.vehicles[plate]["insured"]]
        running = [row for row in rows if row["validFrom"] <= today <= row["validTo"]]
        in_force = [row for row in running if not row["cancelledOn"] or today < row["cancelledOn"]]
        if in_force:
            return "valid" if len(in_force) == 1 else "overlapping"
        last = max(rows, key=lambda row: row["validTo"])
        if last["cancelledOn"]:
            return "cancelled"
        return "future" if last["validFrom"] > today else "expired"

    def mot(self, plate):
        """Return the reason for `motValid`, with three free years."""
        row = self.vehicles[plate]
        if row["motExempt"]:
            return "exempt"
        if row["motExpiry"]:
            return "valid" if row["motExpiry"] >= self.today.isoformat() else "expired"
        third_birthday = years_after(date.fromisoformat(row["firstRegistered"]), 3)
        return "not_due" if third_birthday > self.today else "unknown"

    def tax(self, plate):
        """Return the reason for `roadTaxPaid`."""
        row = self.vehicles[plate]
        if row["taxStatus"] == "taxed" and row["taxDue"] < self.today.isoformat():
            return "expired"
        return {"taxed": "valid", None: "unknown"}.get(row["taxStatus"], row["taxStatus"])

    def fined(self, plate):
        """Return the reason for `noOutstandingFines`."""
        return (
            "outstanding" if any(not r["settledOn"] for r in self.fines.get(plate, [])) else "none"
        )

    def reasons(self, plate):
        """Return all four reasons."""
        return self.insurance(plate), self.mot(plate), self.tax(plate), self.fined(plate)


def by_registration(rows) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows by plate."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[row["registration"]].append(row)
    return dict(grouped)


def years_after(day, years):
    """Return the same day in another year; 1 March for 29 February."""
    if (day.month, day.day) == (2, 29):
        return date(day.year + years, 3, 1)
    return day.replace(year=day.year + years)


@pytest.fixture(scope="module", params=DAYS, ids=str)
def book(request):
    """The register as of each of the days."""
    return Book(request.param)


def all_rows(register: DemoRegister) -> list[Any]:
    """Return every row of the register, of all kinds."""
    return [*register.vehicles, *register.policies, *register.fines]


class TestSameness:
    def test_the_same_seed_and_day_give_the_same_register(self):
        """Seed and day determine the whole register."""
        day = date(2026, 11, 21)
        assert demo_register(day, seed=7) == demo_register(day, seed=7)

    def test_another_seed_gives_other_vehicles(self):
        """Another seed changes everything but the cast."""
        day = date(2026, 11, 21)
        plates = [{r["registration"] for r in demo_register(day, seed).vehicles} for seed in (1, 2)]
        assert len(plates[0] & plates[1]) < 50

    def test_plates_stay_for_the_year(self):
        """A plate is the same vehicle on every day of a year."""
        first, last = (
            demo_register(day).vehicles for day in (date(2027, 1, 1), date(2027, 12, 31))
        )
        identity = ("registration", "make", "model", "color")
        assert [[r[m] for m in identity] for r in first] == [[r[m] for m in identity] for r in last]

    def test_papers_stay_while_nothing_runs_out(self):
        """From one day to the next, few vehicles change insurer or policy number."""
        day = date(2027, 5, 10)
        numbers = [
            {(row["registration"], row["number"]) for row in demo_register(today).policies}
            for today in (day, day + timedelta(days=1))
        ]
        assert len(numbers[0] - numbers[1]) < 20

    @pytest.mark.parametrize("day", [date(2020, 12, 31), date(2051, 1, 1)])
    def test_days_it_was_not_made_for_are_refused(self, day):
        """Days before 2021 and after 2050 are refused: plates and cast would not be realistic."""
        with pytest.raises(OperatorError, match="2021-01-01 to 2050-12-31"):
            demo_register(day)


class TestCast:
    IN_ORDER = ("valid", "valid", "valid", "none")

    @each_row(
        ("part", "reasons"),
        [
            ("compliant", IN_ORDER),
            ("lapsed", ("expired", "valid", "valid", "none")),
            ("future", ("future", "valid", "valid", "none")),
            ("cancelled", ("cancelled", "valid", "valid", "none")),
            ("overlapping", ("overlapping", "valid", "valid", "none")),
            ("insured_flag", ("flag", "valid", "valid", "none")),
            ("uninsured", ("none", "valid", "valid", "none")),
            ("insurance_unknown", ("unknown", "valid", "valid", "none")),
            ("mot_expired", ("valid", "expired", "valid", "none")),
            ("mot_exempt", ("valid", "exempt", "exempt", "none")),
            ("mot_unknown", ("valid", "unknown", "valid", "none")),
            ("new_car", ("valid", "not_due", "valid", "none")),
            ("sorn", ("valid", "valid", "sorn", "none")),
            ("tax_expired", ("valid", "valid", "expired", "none")),
            ("untaxed", ("valid", "valid", "untaxed", "none")),
            ("tax_unknown", ("valid", "valid", "unknown", "none")),
            ("fined", ("valid", "valid", "valid", "outstanding")),
            ("fine_settled", IN_ORDER),
        ],
    )
    def test_each_member_plays_its_part_and_no_other(self, book, part, reasons):
        """On every day, each member fails only the check that it is named after."""
        assert book.reasons(SAMPLE_PLATES[part]) == reasons

    def test_a_settled_fine_is_on_record(self, book):
        """The settled fine exists in the register."""
        assert book.fines[SAMPLE_PLATES["fine_settled"]]

    def test_one_plate_is_known_through_its_policy_alone(self, book):
        """`policy_only` has a policy in force and no vehicle row."""
        assert SAMPLE_PLATES["policy_only"] not in book.vehicles
        assert book.insurance(SAMPLE_PLATES["policy_only"]) == "valid"

    def test_the_unknown_plate_is_in_no_file(self, book):
        """The plate `unknown` answers 404 on every day."""
        assert canonical_registration(SAMPLE_PLATES["unknown"]) == SAMPLE_PLATES["unknown"]
        assert SAMPLE_PLATES["unknown"] not in {
            row["registration"] for row in all_rows(book.register)
        }


class TestShares:
    def test_there_are_300_plates(self, book):
        """All plates but the one with only a policy have a vehicle row."""
        assert len(book.vehicles) == 299
        assert len(book.vehicles.keys() | book.policies.keys() | book.fines.keys()) == 300

    @each_row(
        ("reason", "least", "most"),
        [
            ("valid", 220, 270),
            ("expired", 8, 30),
            ("overlapping", 5, 25),
            ("cancelled", 3, 20),
            ("future", 2, 15),
            ("flag", 1, 15),
            ("none", 1, 10),
            ("unknown", 1, 10),
        ],
    )
    def test_insurance(self, book, reason, least, most):
        """Most vehicles are insured once, and every other case occurs."""
        count = Counter(map(book.insurance, book.vehicles))[reason]
        assert least <= count <= most

    @each_row(
        ("reason", "least", "most"),
        [("valid", 200, 270), ("expired", 5, 40), ("not_due", 20, 90), ("unknown", 1, 10)],
    )
    def test_mot(self, book, reason, least, most):
        """Most vehicles have a certificate; young ones need none yet."""
        assert least <= Counter(map(book.mot, book.vehicles))[reason] <= most

    @each_row(
        ("reason", "least", "most"),
        [
            ("valid", 240, 285),
            ("expired", 3, 25),
            ("sorn", 3, 25),
            ("untaxed", 2, 20),
            ("unknown", 1, 12),
        ],
    )
    def test_tax(self, book, reason, least, most):
        """Most vehicles are taxed."""
        assert least <= Counter(map(book.tax, book.vehicles))[reason] <= most

    def test_fines(self, book):
        """One vehicle in ten has a fine on record, and fewer still owe one."""
        assert 20 <= len(book.fines) <= 60
        assert 5 <= Counter(map(book.fined, book.vehicles))["outstanding"] <= 30


class TestRows:
    def test_registrations_are_canonical_and_unique(self, book):
        """Every plate is in canonical form (D19), and each vehicle has one row."""
        plates = [row["registration"] for row in all_rows(book.register)]
        assert [canonical_registration(plate) for plate in plates] == plates
        assert len(book.vehicles) == len(book.register.vehicles)

    def test_current_plates_show_the_half_year_of_their_first_registration(self, book):
        """AA24 BCD was first registered between March and August 2024."""
        checked = 0
        for plate, row in book.vehicles.items():
            if match := re.fullmatch(r"[A-Z]{2}(\d\d)[A-Z]{3}", plate):
                age = int(match[1])
                half = date(2000 + age, 3, 1) if age <= 50 else date(1950 + age, 9, 1)
                assert half <= date.fromisoformat(row["firstRegistered"]) < half + timedelta(184)
                checked += 1
        assert checked > 280

    def test_keys_are_unique(self, book):
        """No row overwrites another when it is loaded (D25)."""
        policy_key = ("registration", "insurer", "number", "validFrom")
        policies = [tuple(row[m] for m in policy_key) for row in book.register.policies]
        fines = [row["reference"] for row in book.register.fines]
        assert len(set(policies)) == len(policies)
        assert len(set(fines)) == len(fines)

    def test_dates_are_days_of_the_calendar_in_their_order(self, book):
        """A term begins before it ends, and a fine is issued before it is settled."""
        for row in book.register.policies:
            first, last = map(date.fromisoformat, (row["validFrom"], row["validTo"]))
            assert last == years_after(first, 1) - timedelta(days=1)
            if row["cancelledOn"]:
                assert first <= date.fromisoformat(row["cancelledOn"]) <= book.today
        for row in book.register.fines:
            settled_on = date.fromisoformat(row["settledOn"] or book.today.isoformat())
            assert date.fromisoformat(row["issuedOn"]) < settled_on <= book.today
        for row in book.register.vehicles:
            assert date.fromisoformat(row["firstRegistered"]) < book.today
            assert row["year"] == int(row["firstRegistered"][:4])

    def test_nothing_was_updated_today_or_later(self, book):
        """`lastUpdated` is in the past in every time zone."""
        for row in [*book.register.vehicles, *book.register.policies]:
            updated = datetime.strptime(row["lastUpdated"], "%Y-%m-%dT%H:%M:%S%z")
            assert updated.date() < book.today


def test_tax_is_paid_for_whole_months(book):
    """The last day that is paid is the last of a month."""
    days = {date.fromisoformat(row["taxDue"]) for row in book.register.vehicles if row["taxDue"]}
    assert {(day + timedelta(1)).day for day in days} == {1}


def test_files_hold_the_register(tmp_path):
    """The three files hold the same rows in the native CSV layout."""
    day = date(2026, 11, 21)
    register = demo_register(day)
    paths = write_files(tmp_path, day)
    assert [path.name for path in paths] == ["vehicles.csv", "policies.csv", "fines.csv"]
    for path, rows in zip(
        paths, (register.vehicles, register.policies, register.fines), strict=True
    ):
        with path.open(encoding="utf-8", newline="") as file:
            read = list(csv.DictReader(file))
        texts: dict[Any, str] = {None: ""}
        assert read == [{m: texts.get(v, str(v)) for m, v in row.items()} for row in rows]
