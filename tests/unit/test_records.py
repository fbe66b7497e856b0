"""The combined record of a plate: one statement, compared with a plain merge (D20, D26)."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date
from itertools import chain, product, repeat, starmap
from operator import attrgetter
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app import clock
from app.config import Config
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.registers import TELLS_UNKNOWN, Register, in_precedence
from app.storage.sqlite import SqliteEngine
from app.storage.stores import store_of
from app.storage.tables import FineRow, PolicyRow, VehicleRow
from app.storage.versions import migrate_register
from app.vehicles import merging
from app.vehicles import rows as plate_rows
from app.vehicles.facts import DESCRIPTION, PolicyFacts, Record, WantedFields
from app.vehicles.periods import record_on
from app.vehicles.records import Records
from tests.conftest import STORAGE
from tests.rows import each_row
from tests.stores import Template
from tests.unit.explained_model import find_record

pytestmark = STORAGE

ORDER = ("native", "dvsa", "rdw")
DAY = "2025-07-01"
TABLES = {"v": "vehicle", "p": "policy", "f": "fine"}
PLATE = "AB12CDE"
DATED = WantedFields(vehicle=True, papers=True, dates=True)

Rows = dict[str, list[Any]]


class Shelf:
    """Registers of a main database, filled by rows without a load."""

    def __init__(self, database_url: str) -> None:
        self.engine: Engine = open_engine(database_url)
        self._files: dict[str, tuple[Any, str]] = {}
        self._contexts: list[Any] = []
        self.state = ""

    def fill(self, registers: dict[str, Rows], kinds: str = "") -> None:
        """Store exactly these rows; `kinds` are announced, with rows or without."""
        self.state = ",".join(
            f"{name}/1/{''.join(sorted(set(kinds) | {kind for kind in rows if rows[kind]}))}"
            for name, rows in sorted(registers.items())
        )
        refs = in_precedence(self.state, ORDER)
        Register.delete().execute(self.engine)
        for ref in refs:
            Register.insert(name=ref.name, generation=1, kinds=ref.kinds).execute(self.engine)
        for name, rows in registers.items():
            file, schema = self._file(name)
            with file.atomic():
                for kind, table in TABLES.items():
                    file.execute_sql(f'DELETE FROM "{schema}"."{table}"')
                    for row in rows.get(kind, ()):
                        places = ",".join([file.param] * len(row))
                        insert = f'INSERT INTO "{schema}"."{table}" VALUES ({places})'
                        file.execute_sql(insert, row)
        self.engine.attach_registers(refs)

    def multiply(self, table: str, rows: int) -> None:
        """Give many vehicles the rows of a table of native; only on Postgres."""
        name = f"register_native.{table}"
        columns = ", ".join(c.name for c in self.engine.get_columns(table, "register_native"))
        others = columns.replace("registration", "'X' || n")
        self.engine.execute_sql(
            f"INSERT INTO {name} ({columns}) SELECT {others} FROM {name}, generate_series(1, %s) n",
            (rows,),
        )
        self.engine.execute_sql(f"ANALYZE {name}")

    def records(
        self, order: tuple[str, ...] = ORDER, mot_first_years: Mapping[str, int] | None = None
    ) -> Records:
        """Return a reader that attaches the registers of the state."""
        return Records(
            self.engine, Config(register_order=order, mot_first_years=mot_first_years or {})
        )

    def close(self) -> None:
        close_quietly(self.engine)
        for context in self._contexts:
            context.__exit__(None, None, None)

    def _file(self, name: str) -> tuple[Any, str]:
        if name not in self._files:
            context = store_of(self.engine, name).opened(1)
            self._contexts.append(context)
            file, schema = context.__enter__()
            migrate_register(file, schema)
            self._files[name] = file, schema or "main"
            if isinstance(file, SqliteEngine):
                file.pragma("synchronous", 0)
        return self._files[name]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shelf(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    """Registers that each test empties and fills."""
    template: Template = request.getfixturevalue(f"{request.param}_template")
    store = template.store(tmp_path_factory.mktemp("shelf"))
    shelf = Shelf(store.url)
    yield shelf
    shelf.close()
    template.take_back(store)


@pytest.fixture
def found(shelf):
    """Fill registers and look a plate up, alone and among many: both must agree."""

    def look_up(
        registers: dict[str, Rows], day=DAY, order=ORDER, plate=PLATE, **settings: Any
    ) -> Record | None:
        shelf.fill(registers)
        records = shelf.records(order, **settings)
        one, _ = find_record(records, shelf.state, plate, day)
        many, _ = records.find_records(shelf.state, ["NONE1", plate, plate], day)
        assert many == ({plate: one} if one else {})
        for wanted in starmap(WantedFields, product((True, False), repeat=2)):
            some, _ = find_record(records, shelf.state, plate, day, wanted)
            assert some == (one and only(one, wanted))
            many, _ = records.find_records(shelf.state, ["NONE1", plate, plate], day, wanted)
            assert many == ({plate: some} if some else {})
        return one

    return look_up


def only(record: Record, wanted: WantedFields) -> Record:
    """Return a record with the fields that are wanted; the others have their defaults."""
    return Record(**{name: getattr(record, name) for name in wanted.columns})


def vehicle(**columns: Any) -> Rows:
    """Return a register that describes the plate."""
    known: dict[str, Any] = {"registration": PLATE, "updated": 100}
    return {"v": [VehicleRow(**known | columns)]}


def policy(**columns: Any) -> PolicyRow:
    """Return a policy of the plate, in force throughout 2025."""
    known: dict[str, Any] = {"registration": PLATE, "insurer": "", "number": "P-1"}
    dates = {"valid_from": "2025-01-01", "valid_to": "2025-12-31", "updated": 100}
    return PolicyRow(**known | dates | columns)


def fine(**columns: Any) -> FineRow:
    """Return an unsettled fine of the plate."""
    known: dict[str, Any] = {
        "registration": PLATE,
        "reference": "F-1",
        "amount_cents": 100,
        "updated": 100,
    }
    return FineRow(**known | columns)


class TestKnown:
    def test_a_plate_that_no_register_mentions_is_unknown(self, found):
        """The record is None, so the client gets 404."""
        assert found({"native": vehicle(registration="OTHER1"), "rdw": {}}) is None

    def test_without_registers_nothing_is_known(self, shelf):
        """Without registers every plate is unknown, and no query runs."""
        assert find_record(shelf.records(), "", PLATE, DAY) == (None, {})
        assert shelf.records().find_records("", [PLATE], DAY) == ({}, {})

    def test_no_plates_are_no_records(self, shelf):
        """Looking up no plates returns no records."""
        shelf.fill({"native": vehicle()})
        assert shelf.records().find_records(shelf.state, [], DAY)[0] == {}

    @each_row("plate", ["A1", "AB", "MÜAB123", "京A12345", "א٣", "0001TJ", "NULL"])
    def test_any_plate_is_found_by_its_exact_text(self, found, plate):
        """Short, numeric and international plates are found, alone and among many."""
        record = found({"native": vehicle(registration=plate, make="X")}, plate=plate)
        assert record is not None
        assert (record.registration, record.make) == (plate, "X")

    def test_a_plate_known_by_nothing_but_its_key_is_known(self, found):
        """A vehicle row without any known column still makes the plate known."""
        record = found({"native": vehicle()})
        assert record == Record(PLATE, None, 100, None, has_outstanding_fines=False)

    def test_a_plate_can_be_known_by_a_policy_alone(self, found):
        """A plate with only a policy is known, without a description."""
        record = found({"mid": {"p": [policy(updated=7)]}})
        assert record is not None
        assert (record.make, record.policy.number, record.updated) == (None, "P-1", 7)

    def test_an_ended_policy_is_enough_where_no_register_has_other_rows(self, shelf):
        """A plate is known by what does not cover it, also if answers tell what is not known."""
        shelf.fill({"mid": {"p": [policy(valid_to="2025-06-30")]}})
        state = shelf.state + TELLS_UNKNOWN
        for vehicle, papers in product((True, False), repeat=2):
            for plates in ([PLATE], [PLATE, "NONE1"]):
                found, _ = shelf.records().find_records(
                    state, plates, DAY, WantedFields(vehicle, papers)
                )
                assert found.keys() == {PLATE}

    @pytest.mark.parametrize("settled", [False, True])
    def test_a_plate_can_be_known_by_a_fine_alone(self, found, settled):
        """A fine makes its plate known, settled or not."""
        record = found({"nyc": {"f": [fine(settled=settled, updated=9)]}})
        assert record is not None
        assert (record.has_outstanding_fines, record.updated) == (not settled, 9)


class TestDescription:
    @each_row("column", ["make", "model", "year", "color", "insured", "first_registered"])
    def test_each_column_comes_from_the_first_register_that_knows_it(self, found, column):
        """For each column the first register that knows it decides."""
        values: dict[str, Any] = {"year": (2001, 2002), "insured": (False, True)}
        values["first_registered"] = ("2001-01-01", "2002-02-02")
        first, second = values.get(column, ("FIRST", "SECOND"))
        both = found({"native": vehicle(**{column: first}), "rdw": vehicle(**{column: second})})
        gap = found({"native": vehicle(), "rdw": vehicle(**{column: second})})
        assert (getattr(both, column), getattr(gap, column)) == (first, second)

    def test_columns_of_one_record_can_come_from_three_registers(self, found):
        """A record can have its model, colour and year from three registers."""
        record = found(
            {
                "native": vehicle(model="FOCUS"),
                "dvsa": vehicle(model="ESCORT", color="Blue"),
                "rdw": vehicle(model="FIESTA", color="ROOD", year=2001),
            }
        )
        assert (record.model, record.color, record.year) == ("FOCUS", "Blue", 2001)

    def test_the_order_is_a_setting(self, found):
        """Another order of the same registers gives another answer."""
        registers = {"native": vehicle(make="N"), "rdw": vehicle(make="R")}
        assert found(registers, order=("rdw", "native")).make == "R"
        assert found(registers, order=("native", "rdw")).make == "N"

    def test_registers_that_are_not_in_the_order_come_last_by_name(self, found):
        """Registers in the setting come first; the others follow by name, not by time of load."""
        registers = {"zeta": vehicle(make="Z"), "alpha": vehicle(make="A")}
        assert found(registers, order=()).make == "A"
        assert found(registers, order=("zeta",)).make == "Z"
        assert found(registers | {"rdw": vehicle(make="R")}, order=("rdw",)).make == "R"


class TestTax:
    def test_status_and_due_date_come_from_one_register(self, found):
        """The last paid day of one register never completes the status of another."""
        registers = {
            "native": vehicle(tax_status="sorn"),
            "rdw": vehicle(tax_status="taxed", tax_due="2026-01-01"),
        }
        record = found(registers)
        assert (record.tax_status, record.tax_due) == ("sorn", None)

    def test_a_due_date_without_a_status_is_not_used(self, found):
        """A register's last paid day without a status is ignored."""
        registers = {
            "native": vehicle(tax_due="2024-01-01"),
            "rdw": vehicle(tax_status="taxed", tax_due="2026-01-01"),
        }
        record = found(registers)
        assert (record.tax_status, record.tax_due) == ("taxed", "2026-01-01")


class TestMot:
    def test_the_latest_expiry_of_all_registers_counts(self, found):
        """The latest expiry counts, whatever the order of registers."""
        registers = {
            "native": vehicle(mot_expiry="2025-01-31"),
            "dvsa": vehicle(mot_expiry="2026-05-19"),
            "rdw": vehicle(),
        }
        assert found(registers).mot_expiry == "2026-05-19"

    @each_row(
        ("setting", "first", "second", "years"),
        [
            ({}, "2024-01-01", "2025-01-01", 0),
            ({"*": 3}, "2024-01-01", "2025-01-01", 3),
            ({"native": 1, "rdw": 4}, "2024-01-01", "2025-01-01", 1),
            ({"native": 1, "*": 4}, None, "2025-01-01", 4),
            ({"rdw": 4}, "2024-01-01", "2025-01-01", 0),
            ({"native": 1, "rdw": 4}, None, None, 0),
        ],
    )
    def test_the_first_years_are_those_of_the_register_with_the_date(
        self, found, setting, first, second, years
    ):
        """The register that the first registration comes from decides the years, too (D154)."""
        registers = {
            "native": vehicle(first_registered=first),
            "rdw": vehicle(first_registered=second),
            "mid": {"p": [policy()]},
        }
        assert found(registers, mot_first_years=setting).mot_first_years == years

    @each_row(
        ("first", "second", "exempt"),
        [(True, False, 1), (False, True, 1), (None, True, 1), (False, False, 0)],
    )
    def test_it_is_exempt_if_any_register_says_so(self, found, first, second, exempt):
        """An exemption in any register counts, whatever the order."""
        record = found({"native": vehicle(mot_exempt=first), "rdw": vehicle(mot_exempt=second)})
        assert record.mot_exempt == exempt

    def test_unknown_stays_unknown(self, found):
        """Without any known test there is no expiry."""
        record = found({"native": vehicle(), "rdw": vehicle()})
        assert (record.mot_expiry, record.mot_exempt) == (None, None)


class TestPolicy:
    @each_row("registers", [1, 2], ids=["one register", "two registers"])
    @each_row(
        ("winner", "loser"),
        [
            # In force and ending last, precedes one in force that ends earlier.
            ({"valid_to": "2025-09-30"}, {"valid_to": "2025-08-31"}),
            # In force, precedes a future one that ends later.
            ({"valid_to": "2025-07-01"}, {"valid_from": "2025-07-02", "valid_to": "2026-07-01"}),
            # In force, precedes a cancelled one that would end later.
            ({"valid_to": "2025-09-30"}, {"cancelled_on": "2025-07-01"}),
            # None in force: the greatest end, here the future one.
            ({"valid_from": "2025-08-01", "valid_to": "2026-07-31"}, {"valid_to": "2025-06-30"}),
            # Both in force: the one that ends last, not one that is cancelled before.
            ({"valid_to": "2025-09-30"}, {"cancelled_on": "2025-09-01"}),
            # A cancellation after the last day changes nothing.
            (
                {"valid_to": "2025-09-30", "cancelled_on": "2025-11-01"},
                {"valid_to": "2025-10-31", "cancelled_on": "2025-08-01"},
            ),
            # None in force: the greatest end, which a cancellation is.
            ({"valid_to": "2025-05-31"}, {"cancelled_on": "2025-02-01"}),
            ({"cancelled_on": "2025-06-30"}, {"valid_to": "2025-06-29"}),
            # The last day is covered, the day of a cancellation is not.
            ({"valid_to": "2025-06-30"}, {"valid_to": "2025-12-31", "cancelled_on": "2025-06-30"}),
            # Same end: the later beginning.
            ({"valid_from": "2025-02-01"}, {"valid_from": "2025-01-31"}),
            # Same dates: the greater number, as text.
            ({"number": "P-9"}, {"number": "P-10"}),
        ],
        ids=[
            *("end", "future", "cancelled", "later", "cancelled before", "cancelled after"),
            *("ended", "latest", "last day", "beginning", "number"),
        ],
    )
    def test_one_policy_decides(self, found, registers, winner, loser):
        """First in force, then the later end, then the later beginning, then the number."""
        loser, winner = {"number": "P-2"} | loser, {"number": "P-1"} | winner
        shelves: dict[str, Rows] = {"native": {"p": [policy(**loser, insurer="loser")]}}
        name = "native" if registers == 1 else "rdw"
        shelves.setdefault(name, {"p": []})["p"].append(policy(**winner, insurer="winner"))
        assert found(shelves).policy.insurer == "winner"

    def test_the_day_asked_for_decides(self, found):
        """Another day can choose another policy."""
        early = policy(number="P-1", valid_to="2025-06-30")
        late = policy(number="P-2", valid_from="2025-07-01")
        registers: dict[str, Rows] = {"native": {"p": [early, late]}}
        assert found(registers, day="2025-06-30").policy.number == "P-1"
        assert found(registers, day="2025-07-01").policy.number == "P-2"

    def test_before_its_cancellation_a_policy_was_in_force(self, found):
        """A policy stays in force on days before its cancellation."""
        cancelled = policy(number="P-1", cancelled_on="2025-06-01", insurer="A")
        current = policy(number="P-2", valid_from="2025-06-01", insurer="B")
        registers: dict[str, Rows] = {"native": {"p": [cancelled, current]}}
        assert found(registers, day="2025-05-31").policy.insurer == "A"
        assert found(registers, day="2025-06-01").policy.insurer == "B"

    def test_policies_of_all_registers_count(self, found):
        """A policy counts equally in any register."""
        expired = policy(number="OLD", valid_to="2025-01-31")
        record = found({"native": {"p": [expired]} | vehicle(), "zeta": {"p": [policy()]}})
        assert record.policy == PolicyFacts("", "P-1", "2025-01-01", "2025-12-31", None, None, 100)

    def test_one_number_of_two_insurers_is_two_policies(self, found):
        """If two policies are equal by D20, the insurer's name decides."""
        both = [policy(insurer="B"), policy(insurer="A")]
        assert found({"native": {"p": both}}).policy.insurer == "A"
        assert found({"native": {"p": both[::-1]}}).policy.insurer == "A"


class TestFines:
    @pytest.mark.parametrize(
        ("first", "second", "owed"),
        [([True], [False], True), ([True, False], [], True), ([True, True], [True], False)],
    )
    def test_one_fine_that_is_owed_is_enough(self, found, first, second, owed):
        """Fines of all registers count; settled ones are not owed."""
        shelves = {
            name: {"f": [fine(reference=str(i), settled=s) for i, s in enumerate(settled)]}
            for name, settled in (("native", first), ("nyc", second))
        }
        assert found(shelves).has_outstanding_fines == owed


class TestUpdated:
    def test_it_is_the_newest_of_the_rows_used(self, found):
        """`updated` is the newest among the vehicle rows and the chosen policy."""
        registers = {"native": vehicle(updated=300), "rdw": vehicle(updated=500)}
        assert found(registers).updated == 500
        registers["mid"] = {"p": [policy(updated=700)]}
        assert found(registers).updated == 700

    @pytest.mark.parametrize("name", ["native", "rdw"])
    def test_a_policy_that_is_not_answered_is_not_used(self, found, name):
        """A change of another policy does not change `updated`."""
        other = policy(number="OLD", valid_to="2025-01-31", updated=900)
        shelves: dict[str, Rows] = {"native": {"p": [policy(updated=200)]} | vehicle(updated=100)}
        shelves.setdefault(name, {"p": []})["p"].append(other)
        assert found(shelves).updated == 200

    def test_a_fine_is_not_used_if_anything_else_is_known(self, found):
        """Fines do not affect `updated` if anything else is known."""
        record = found({"native": vehicle(updated=100), "nyc": {"f": [fine(updated=900)]}})
        assert record.updated == 100


class TestStatements:
    @pytest.mark.parametrize("names", [["native"], ["native", "rdw"], ["native", "rdw", "zeta"]])
    def test_one_statement_however_many_registers(self, shelf, statements, names):
        """A look-up is one statement, whether for one plate or a thousand."""
        shelf.fill({name: vehicle() for name in names}, kinds="vpf")
        records = shelf.records()
        find_record(records, shelf.state, PLATE, DAY)
        with statements() as one:
            find_record(records, shelf.state, PLATE, DAY)
        with statements() as many:
            records.find_records(shelf.state, [f"AB{n}" for n in range(1000)], DAY)
        assert (len(one), len(many)) == (1, 1)

    def test_tables_that_hold_nothing_are_not_asked(self, shelf, statements):
        """Tables without rows are not queried."""
        shelf.fill({"rdw": vehicle()})
        with statements() as seen:
            find_record(shelf.records(), shelf.state, PLATE, DAY)
        assert '"vehicle"' in seen[-1]
        assert '"policy"' not in seen[-1]
        assert '"fine"' not in seen[-1]

    def test_insurance_does_not_ask_for_fines(self, shelf, statements):
        """Fines are read only for a plate that nothing else mentions."""
        shelf.fill({"native": vehicle() | {"f": [fine()]}})
        with statements() as seen:
            find_record(shelf.records(), shelf.state, PLATE, DAY, DESCRIPTION)
        assert '"fine"' not in seen[-1]
        shelf.fill({"native": {"f": [fine()]}}, kinds="v")
        with statements() as seen:
            record, _ = find_record(shelf.records(), shelf.state, PLATE, DAY, DESCRIPTION)
        assert record
        assert ['"fine"' in statement for statement in seen] == [False, True]

    @pytest.mark.parametrize("shelf", ["sqlite"], indirect=True)
    @pytest.mark.parametrize("names", [["native"], ["native", "rdw", "zeta"]])
    @pytest.mark.parametrize("papers", [False, True])
    def test_all_tables_are_searched_once_by_their_keys(self, shelf, names, papers, monkeypatch):
        """SQLite searches each table by its key, once for each plate, and sorts nothing."""
        shelf.fill({name: {} for name in names}, kinds="vpf")
        rows = Mock(return_value=[])
        monkeypatch.setattr(shelf.engine, "rows", rows)
        wanted = WantedFields(vehicle=False, papers=papers)
        shelf.records().find_records(shelf.state, [PLATE, "X1"], DAY, wanted)
        sql, params = rows.call_args.args
        plan = shelf.engine.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params)
        steps = [step for *_, step in plan]
        searched = [step for step in steps if step.startswith("SEARCH")]
        assert len(searched) == 3 * len(names)
        assert all("PRIMARY KEY (registration=?)" in step for step in searched)
        assert all("listed" in step for step in steps if step.startswith("SCAN"))
        assert "TEMP B-TREE" not in "".join(steps)

    @pytest.mark.parametrize("shelf", ["postgres"], indirect=True)
    @pytest.mark.parametrize("papers", [False, True])
    def test_policies_and_fines_are_found_by_their_keys(self, shelf, monkeypatch, papers):
        """Postgres uses the index, also for many plates, and reads no other rows."""
        shelf.fill({"native": {"p": [policy()], "f": [fine()]}})
        for table in ("policy", "fine"):
            shelf.multiply(table, 10_000)
        rows = Mock(return_value=[])
        monkeypatch.setattr(shelf.engine, "rows", rows)
        wanted = WantedFields(vehicle=True, papers=papers)
        shelf.records().find_records(shelf.state, [f"X{n}" for n in range(1_000)], DAY, wanted)
        sql, params = rows.call_args.args
        monkeypatch.undo()
        plan = "\n".join(line for (line,) in shelf.engine.execute_sql(f"EXPLAIN {sql}", params))
        assert "Seq Scan" not in plan
        assert plan.count("using policy_pkey") == 1
        assert plan.count("using fine_pkey") == 1


# Few plates, days and values, so that rows collide.
plates = st.sampled_from(["A1", "B2", "MÜ3"])
days = st.sampled_from(["2025-06-29", "2025-06-30", "2025-07-01", "2025-07-02", "2025-07-03"])
times = st.integers(0, 9)
maybe = st.none


def rows_of(kind: type, *key: str, **columns: st.SearchStrategy[Any]) -> Any:
    """Rows of a table with unique keys."""
    rows = st.builds(kind, registration=plates, updated=times, **columns)
    return st.lists(rows, max_size=6, unique_by=attrgetter(*key))


vehicles = rows_of(
    VehicleRow,
    "registration",
    make=maybe() | st.sampled_from("MN"),
    model=maybe() | st.sampled_from("OP"),
    year=maybe() | st.integers(2001, 2003),
    color=maybe() | st.sampled_from("QR"),
    insured=maybe() | st.booleans(),
    mot_expiry=maybe() | days,
    mot_exempt=maybe() | st.booleans(),
    first_registered=maybe() | days,
    tax_status=maybe() | st.sampled_from(["taxed", "sorn"]),
    tax_due=maybe() | days,
)
policies = rows_of(
    PolicyRow,
    *("registration", "insurer", "number", "valid_from"),
    insurer=st.sampled_from(["", "I", "J"]),
    number=st.sampled_from(["P9", "P10", "Ü"]),
    valid_from=days,
    valid_to=days,
    type=maybe() | st.just("T"),
    cancelled_on=maybe() | days,
)
fines = rows_of(
    FineRow,
    *("registration", "reference"),
    reference=st.sampled_from("XYZ"),
    issued_on=maybe(),
    amount_cents=st.just(100),
    currency=maybe(),
    settled=st.booleans(),
)
any_registers = st.dictionaries(
    st.sampled_from(["native", "rdw", "alpha", "zeta"]),
    st.fixed_dictionaries({"v": vehicles, "p": policies, "f": fines}),
    min_size=1,
    max_size=3,
)


def merged(registers: dict[str, Rows], order: tuple[str, ...], plate: str, day: str) -> Any:
    """The reference: D20, D21 and D26 in plain Python, row by row."""
    named = [name for name in order if name in registers]
    names = named + sorted(set(registers) - set(named))

    def held(kind: str) -> list[Any]:
        return [r for name in names for r in registers[name][kind] if r.registration == plate]

    described, insured_by, fined = held("v"), held("p"), held("f")
    if not described and not insured_by and not fined:
        return None

    def first(column: str) -> Any:
        return next((v for r in described if (v := getattr(r, column)) is not None), None)

    def in_force(p: PolicyRow) -> bool:
        return p.valid_from <= day <= p.valid_to and not (p.cancelled_on and p.cancelled_on <= day)

    answered = None
    for name in names:
        # Ties of D20: within a register the lesser insurer wins, among registers the first.
        mine = [p for p in registers[name]["p"] if p.registration == plate]
        for p in sorted(mine, key=lambda p: p.insurer):
            end = min(filter(None, (p.valid_to, p.cancelled_on)))
            rank = (in_force(p), end, end != p.cancelled_on, p.valid_from, p.number)
            if answered is None or rank > answered[0]:
                answered = (rank, p)
    taxed = next((r for r in described if r.tax_status is not None), None)
    used = [*described, answered[1]] if answered else described
    return {
        "description": [first(c) for c in ("make", "model", "year", "color", "first_registered")],
        "insured": first("insured"),
        "mot_expiry": max((r.mot_expiry for r in described if r.mot_expiry), default=None),
        "mot_exempt": any(r.mot_exempt for r in described),
        "tax": (taxed.tax_status, taxed.tax_due) if taxed else (None, None),
        "policy": answered and answered[1][1:],
        "owed": any(not f.settled for f in fined),
        "updated": max(row.updated for row in used or fined),
    }


def as_merged(record: Record | None) -> Any:
    """Return a Record in the form of the reference."""
    if record is None:
        return None
    p = record.policy
    return {
        "description": [
            *(record.make, record.model, record.year, record.color),
            record.first_registered,
        ],
        "insured": record.insured,
        "mot_expiry": record.mot_expiry,
        "mot_exempt": bool(record.mot_exempt),
        "tax": (record.tax_status, record.tax_due),
        "policy": p and (p.insurer, p.number, *p[2:]),
        "owed": record.has_outstanding_fines,
        "updated": record.updated,
    }


def insured_by(record: Record) -> Any:
    """Return what decides the insurance."""
    return record.insured if record.policy is None else record.policy


# Most of these policies have the dates and the number of another one.
like_others = st.lists(
    st.builds(
        PolicyRow,
        registration=st.sampled_from(["A1", "B2"]),
        insurer=st.sampled_from(["", "I", "J", "Ü"]),
        number=st.sampled_from(["9", "10", '"\\', "\uffff", "\U0001f600"]),
        valid_from=st.sampled_from(["2025-06-30", "2025-07-01"]),
        valid_to=st.sampled_from(["2025-07-01", "2025-07-02"]),
        type=maybe() | st.just("T"),
        cancelled_on=maybe() | days,
        updated=times,
    ),
    max_size=12,
    unique_by=attrgetter("registration", "insurer", "number", "valid_from"),
)


class TestAgainstTheReference:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        registers=any_registers,
        day=days,
        order=st.permutations(["native", "rdw", "zeta"]).map(tuple),
        kinds=st.sampled_from(["", "vpf"]),
    )
    def test_one_statement_says_what_a_plain_merge_says(self, shelf, registers, day, order, kinds):
        """Random rows, registers and days give the reference's records, for one plate and many."""
        shelf.fill(registers, kinds)
        records = shelf.records(order)
        asked = ["A1", "B2", "MÜ3", "C4"]
        expected = {plate: merged(registers, order, plate, day) for plate in asked}
        one = {plate: find_record(records, shelf.state, plate, day)[0] for plate in asked}
        many, _ = records.find_records(shelf.state, asked, day)
        assert {plate: as_merged(record) for plate, record in one.items()} == expected
        assert many == {plate: record for plate, record in one.items() if record}
        brief, _ = records.find_records(
            shelf.state, asked, day, WantedFields(vehicle=False, papers=False)
        )
        assert {plate: insured_by(record) for plate, record in brief.items()} == {
            plate: insured_by(record) for plate, record in many.items()
        }

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        policies=st.dictionaries(st.sampled_from("dcba"), like_others, min_size=1),
        asked=st.tuples(days, days).map(sorted),
    )
    def test_a_later_day_has_the_policy_of_its_own_look_up(self, shelf, policies, asked):
        """What is read for later days is enough to choose as a look-up of each day does."""
        shelf.fill({name: {"p": rows} for name, rows in policies.items()}, kinds="p")
        records, (first, later) = shelf.records(()), asked
        for plate in ("A1", "B2"):
            dated, _ = find_record(records, shelf.state, plate, first, DATED)
            alone, _ = find_record(records, shelf.state, plate, later)
            assert (dated and record_on(dated, later).policy) == (alone and alone.policy)


class TestManyRows:
    """A plate with more rows than are read at once is read apart, in pages."""

    @pytest.fixture
    def pages(self, monkeypatch):
        """Read five rows of a plate at once, three in a page, and keep two policies."""
        monkeypatch.setattr(plate_rows, "ROWS_MAX", 5)
        monkeypatch.setattr(plate_rows, "_ROWS_PER_PLATE", 1)
        monkeypatch.setattr(plate_rows, "_PAGE_ROWS", 3)
        monkeypatch.setattr(merging, "POLICIES_MAX", 2)

    @pytest.mark.usefixtures("pages")
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        policies=st.dictionaries(st.sampled_from("dcba"), like_others, min_size=1),
        day=days,
        dated=st.booleans(),
    )
    def test_pages_make_the_same_record(self, shelf, monkeypatch, policies, day, dated):
        """What is read in pages gives the record that is read at once."""
        shelf.fill({name: {"p": rows} for name, rows in policies.items()}, kinds="pf")
        records, asked = shelf.records(()), ["A1", "B2", "NONE"]
        wanted = WantedFields(vehicle=True, papers=True, dates=dated)
        in_pages, _ = records.find_records(shelf.state, asked, day, wanted)
        alone = {plate: find_record(records, shelf.state, plate, day, wanted)[0] for plate in asked}
        with monkeypatch.context() as at_once:
            at_once.setattr(plate_rows, "ROWS_MAX", 1_000)
            expected, _ = records.find_records(shelf.state, asked, day, wanted)
        # Rows that cannot count are forgotten between two pages.
        for found in (in_pages, {plate: record for plate, record in alone.items() if record}):
            assert {plate: replace(record, held=None) for plate, record in found.items()} == {
                plate: replace(record, held=None) for plate, record in expected.items()
            }


def test_midnight_begins_another_day(shelf, monkeypatch):
    """What is known moves on with the day, although the state of the registers stays."""
    shelf.fill({"native": {"v": [VehicleRow(PLATE, insured=True, updated=0)]}})
    records, state = shelf.records(), shelf.state + TELLS_UNKNOWN
    for today in ("2026-06-15", "2026-06-16", "2026-06-15"):
        monkeypatch.setattr(clock, "today", lambda _, day=today: date.fromisoformat(day))
        found, _ = records.find_records(state, [PLATE], today)
        assert found[PLATE].basis.today == today


def test_midnight_while_look_ups_are_compiled_is_not_missed(shelf, monkeypatch):
    """Whatever day the first look-up of a day has, the next one has the new day."""
    shelf.fill({"native": {"v": [VehicleRow(PLATE, insured=True, updated=0)]}})
    records, state = shelf.records(), shelf.state + TELLS_UNKNOWN
    days = chain([date(2026, 6, 15)], repeat(date(2026, 6, 16)))
    monkeypatch.setattr(clock, "today", lambda _: next(days))
    monkeypatch.setattr(clock, "now", lambda: clock.start_of(date(2026, 6, 16), UTC) + 3600)
    for _ in range(2):
        found, _ = records.find_records(state, [PLATE], "2026-06-16")
    assert found[PLATE].basis.today == "2026-06-16"
