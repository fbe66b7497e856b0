"""A load takes all files of a command or nothing, whatever happens (D28)."""

import gzip
import io
import signal
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import peewee
import pytest

from app import clock
from app.backup.take import take
from app.domains.repository import Domains
from app.errors import OperatorError
from app.registers import load as load_module
from app.registers import modes
from app.registers import work as work_module
from app.registers.applying.table import RegisterTable
from app.registers.generations import Generations, locked
from app.registers.history import insert_line, list_loads
from app.registers.reading import reader as reading_module
from app.registers.reading import sorted_runs as sorting
from app.registers.recovery import recover
from app.registers.request import LoadRequest
from app.registers.undo import purge_register
from app.storage import register_store
from app.storage.engine import close_quietly, open_engine
from app.storage.postgres import PostgresEngine
from app.storage.registers import REGISTERS_MAX, Register
from app.storage.stores import migrate, store_of
from app.storage.tables import Fine, Kind, Policy, Vehicle, in_schema
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE
from tests.postgres import connect
from tests.rows import each_row
from tests.stores import end_connections
from tests.system.processes import until
from tests.unit.held import begun

pytestmark = STORAGE

FIRST, SECOND = 1_900_000_000, 1_900_086_400
CAR: dict[str, Any] = {"registration": "AB12CDE", "make": "FORD", "year": 2012}
OTHER: dict[str, Any] = {"registration": "AB13CDE", "make": "SEAT", "year": 2013}
POLICY = {
    "registration": "AB12CDE",
    "number": "P-1",
    "validFrom": "2026-01-01",
    "validTo": "2099-12-31",
}
FINE = {"registration": "AB12CDE", "reference": "F-1", "amount": "65.00"}


def held(world, model: Any = Vehicle, register: str = "native") -> list[tuple[Any, ...]]:
    """Return all rows of a register, sorted by key."""
    found = Register.select().where(Register.name == register).get(world.engine)
    with store_of(world.engine, register).opened(found.generation) as (engine, schema):
        model = in_schema(model, schema) if schema else model
        key = model._meta.get_primary_keys()
        return list(model.select().order_by(*key).tuples().execute(engine))


def times(world, register: str = "native") -> dict[str, int]:
    """Return when each vehicle of a register last changed."""
    return {row[0]: row[-1] for row in held(world, register=register)}


def files(world, **contents: str | bytes):
    """Write files with these contents, named like the arguments."""
    paths = []
    for name, content in contents.items():
        path = world.directory / f"{name}.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        paths.append(path)
    return paths


@pytest.fixture
def at(monkeypatch):
    """`at(SECONDS)` sets the clock."""
    return lambda seconds: monkeypatch.setattr(clock, "now", lambda: seconds)


class TestMerge:
    def test_the_same_file_twice_changes_nothing(self, world, at):
        """Unchanged rows do not count as changes, and keep their time (D21)."""
        for time, changed in ((FIRST, 2), (SECOND, 0)):
            at(time)
            result = world.load([CAR, OTHER])
            assert (result.loaded, result.changed) == (2, changed)
        assert times(world) == {"AB12CDE": FIRST, "AB13CDE": FIRST}

    def test_a_changed_row_gets_the_time_of_its_load(self, world, at):
        """Only the changed row gets the time of the load."""
        at(FIRST)
        world.load([CAR, OTHER])
        at(SECOND)
        assert world.load([CAR | {"make": "SEAT"}, OTHER]).changed == 1
        assert times(world) == {"AB12CDE": SECOND, "AB13CDE": FIRST}

    @pytest.mark.parametrize("member", ["make", "model", "color", "insured", "motExpiry", "year"])
    def test_a_value_that_is_gone_is_a_change(self, world, at, member):
        """A row has all that its source knows, so a blank value becomes unknown."""
        values = {"insured": True, "motExpiry": "2027-01-31", "year": 2012}
        at(FIRST)
        world.load([CAR | {member: values.get(member, "X")}])
        at(SECOND)
        assert world.load([CAR | {member: None}]).changed == 1
        assert times(world) == {"AB12CDE": SECOND}

    def test_a_sources_own_time_counts(self, world, at):
        """A row has the time that its source gives, and a newer time is a change."""
        at(SECOND)
        for day, changed in ((1, 1), (1, 0), (2, 1)):
            row = CAR | {"lastUpdated": f"2026-02-0{day}T00:00:00Z"}
            assert world.load([row]).changed == changed
        assert times(world) == {"AB12CDE": 1_769_990_400}

    def test_a_row_keeps_its_sources_time_when_it_comes_without(self, world, at):
        """An unchanged row without a time keeps the one it had."""
        at(FIRST)
        world.load([CAR | {"lastUpdated": "2026-02-02T00:00:00Z"}])
        at(SECOND)
        assert world.load([CAR]).changed == 0
        assert times(world) == {"AB12CDE": 1_769_990_400}

    def test_rows_that_are_not_in_the_file_stay(self, world):
        """A merge adds and replaces rows, and never removes any."""
        world.load([CAR])
        world.load([OTHER])
        assert [row[0] for row in held(world)] == ["AB12CDE", "AB13CDE"]

    @pytest.mark.parametrize("run_rows", [1, 2, 100])
    def test_the_later_row_of_a_plate_counts(self, world, monkeypatch, run_rows):
        """The later row of a plate counts, as one change, even if the earlier one is on disk."""
        monkeypatch.setattr(reading_module, "RUN_ROWS", run_rows)
        monkeypatch.setattr(reading_module, "_ROWS_BETWEEN_PROGRESS", 1)
        result = world.load([CAR | {"make": "SEAT"}, OTHER, CAR])
        assert (result.loaded, result.changed) == (3, 2)
        assert [row[:2] for row in held(world)] == [("AB12CDE", "FORD"), ("AB13CDE", "SEAT")]

    def test_a_key_that_goes_back_and_forth_within_a_file_is_no_change(self, world, at):
        """Only the last row of a key is compared with the register."""
        at(FIRST)
        world.load([CAR])
        at(SECOND)
        assert world.load([CAR | {"make": "SEAT"}, CAR]).changed == 0
        assert times(world) == {"AB12CDE": FIRST}


class TestKinds:
    def test_one_register_holds_three_kinds(self, world):
        """Vehicles, policies and fines are loaded one after the other, and counted separately."""
        for row in (CAR, POLICY, FINE):
            world.load([row])
        assert [len(held(world, model)) for model in (Vehicle, Policy, Fine)] == [1, 1, 1]
        register = Register.select().get(world.engine)
        assert (register.vehicles, register.policies, register.fines) == (1, 1, 1)
        assert register.kinds == "fpv"

    def test_a_kind_is_announced_before_its_rows_are_there(self, world, monkeypatch):
        """Readers look for a kind before its first rows are committed (D28)."""
        world.load([CAR])
        seen = []
        fill = RegisterTable.fill

        def watched(self, batches):
            seen.append(Register.select(Register.kinds).scalar(world.engine))
            return fill(self, batches)

        monkeypatch.setattr(RegisterTable, "fill", watched)
        world.load([FINE])
        assert seen == ["fv"]

    def test_policies_of_one_plate_are_separate(self, world):
        """Insurer, number and first day are a policy's key; an unknown insurer is a value, too."""
        rows = [POLICY, POLICY | {"insurer": "A"}, POLICY | {"validFrom": "2026-02-01"}, POLICY]
        assert world.load(rows).changed == 3

    def test_one_command_loads_one_kind(self, world):
        """Vehicles and fines in one command are refused; the error names the file."""
        paths = files(
            world, a="registration,make\nA1,X\n", b="registration,reference,amount\nA1,F,1\n"
        )
        with pytest.raises(
            OperatorError, match=r"b\.csv: The first file is native-csv with vehicles"
        ):
            world.load_files(*paths)
        assert Register.select().count(world.engine) == 0

    def test_one_command_loads_one_layout(self, world):
        """Files of two agencies in one command are refused."""
        paths = files(world, a="registration,make\nA1,X\n", b="Kenteken,Merk\n11ZKZ3,SKODA\n")
        with pytest.raises(
            OperatorError, match=r"b\.csv: The first file is native-csv with vehicles"
        ):
            world.load_files(*paths)

    def test_a_file_of_another_kind_is_refused(self, world):
        """With `--kind`, a file of another kind is refused; it would blank vehicles."""
        world.load([{"registration": "A1", "make": "FORD"}])
        paths = files(
            world, a="registration,number,validFrom,validTo\nA1,P,2026-01-01,2026-12-31\n"
        )
        with pytest.raises(OperatorError, match="contains policies, not vehicles"):
            world.load_files(*paths, kind=Kind.VEHICLES)
        assert world.load_files(*paths, kind=Kind.POLICIES).kind == "policies"

    @each_row("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    @each_row("options", [{}, {"format": "rdw-csv"}, {"kind": Kind.VEHICLES}])
    def test_utf_16_is_refused_by_name(self, world, encoding, options):
        """A file in UTF-16 is refused as such, whether its format is named or detected."""
        for header in ("Kenteken", "Номер"):
            paths = files(world, a=f"{header}\nA1,B2\n".encode(encoding))
            with pytest.raises(OperatorError, match="The file is UTF-16; save it as UTF-8"):
                world.load_files(*paths, **options)

    def test_single_nuls_alone_are_not_utf_16(self, world):
        """A NUL at the beginning is damage."""
        for start in (b"\0", b"r\0", b"\0\0", b"a\0\0b\0\0c\0\0"):
            with pytest.raises(OperatorError, match="fits no format"):
                world.load_files(*files(world, a=start + b"egistration\nA1\n"))

    @pytest.mark.parametrize("nothing", ["[]", " [\r\n]\n", "\ufeff[ ]"])
    def test_the_page_after_the_last_is_empty(self, world, nothing):
        """Pages are fetched until one is empty, so an empty page among others is no fault."""
        for options in ({}, {"format": "rdw-json"}):
            first, last = (
                f'[{{"kenteken": "{plate}", "merk": "FORD", "wam_verzekerd": "Ja"}}]'
                for plate in ("A1", "A2")
            )
            pages = files(world, a=first, b=nothing, c=last)
            assert world.load_files(*pages, **options).rows == 2
        with pytest.raises(OperatorError, match="fits no format"):
            world.load_files(*files(world, a=nothing))

    def test_the_page_after_fines_of_other_states_is_empty(self, world):
        """Pages whose rows are all skipped are pages, too."""
        fine = '{"plate": "A1", "state": "NJ", "summons_number": "1", "amount_due": "5", '
        fines = f'[{fine}"issue_date": "01/02/2026"}}]'
        assert world.load_files(*files(world, a=fines, b="[]")).skipped == 1


class TestAllOrNothing:
    def test_one_bad_file_among_several_changes_nothing(self, world):
        """If one file fails, no rows of the files before or after it are loaded."""
        world.load([CAR])
        good = "registration,make\nAB13CDE,SEAT\n"
        bad = 'registration,make\nAB14CDE,"SEAT\n'
        with pytest.raises(OperatorError, match=r"b\.csv: A quote opened .* is never closed"):
            world.load_files(*files(world, a=good, b=bad, c=good))
        assert [row[0] for row in held(world)] == ["AB12CDE"]

    def test_a_failed_load_leaves_a_line_with_its_reason(self, world):
        """The history has the failed load and its reason."""
        paths = files(world, a='registration,make\nAB14CDE,"SEAT\n')
        with pytest.raises(OperatorError) as refusal:
            world.load_files(*paths)
        (line,) = list_loads(world.engine)
        assert (line.status, line.reason) == ("failed", str(refusal.value))

    def test_a_register_made_for_a_failed_load_goes_again(self, world):
        """A first load that fails leaves neither a register nor its file."""
        with pytest.raises(OperatorError):
            world.load_files(*files(world, a='registration,make\nAB14CDE,"SEAT\n'))
        assert Register.select().count(world.engine) == 0
        assert list(world.directory.glob("*.register_native.*.db*")) == []

    def test_a_ninth_register_is_refused(self, world):
        """SQLite attaches eight registers only; the refusal says what to do (D25)."""
        for number in range(REGISTERS_MAX):
            world.load([CAR], register=f"r{number}")
        with pytest.raises(OperatorError, match="there are 8 registers; drop one first"):
            world.load([CAR], register="r9")
        assert Register.select().count(world.engine) == REGISTERS_MAX
        assert world.load([OTHER], register="r0").changed == 1

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_load_into_an_incomplete_register_is_refused(self, world, mode):
        """A load into a register with missing data would make the loss look like data (D28)."""
        world.load([CAR])
        entry: Any = Register.select().dicts().get(world.engine)
        purge_register(world.engine, "native")
        Register.insert(**entry).execute(world.engine)
        migrate(world.engine)  # Migrating does not create an empty register either.
        for dry_run in (True, False):
            with pytest.raises(OperatorError, match="of the register native is missing; restore"):
                world.load_files(
                    *files(world, a="registration,make\nA1,X\n"), mode=mode, dry_run=dry_run
                )
        purge_register(world.engine, "native")
        assert world.load([CAR]).held == 1

    @ON_POSTGRES
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_load_that_lost_its_database_changes_nothing(self, world, monkeypatch, mode):
        """A load whose connections end, as when the server restarts, changes nothing."""
        world.load([CAR])
        written = RegisterTable.upsert if mode == "merge" else RegisterTable.fill

        def losing(self, rows):
            with connect(world.config.database_url) as operator:
                name = self._engine.connection().info.dbname
                end_connections(operator, name)
            written(self, rows)

        monkeypatch.setattr(RegisterTable, written.__name__, losing)
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n")
        with pytest.raises(peewee.OperationalError):
            world.load_files(*paths, mode=mode)
        monkeypatch.undo()
        assert [line.status for line in list_loads(world.engine)] == ["failed", "done"]
        assert [row[1] for row in held(world)] == ["FORD"]
        assert world.load_files(*paths, mode=mode).changed == 1

    @ON_SQLITE
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_backup_during_a_load_is_of_the_old(self, world, monkeypatch, mode):
        """A backup during a load has the former rows, and neither waits for the other."""
        world.load([CAR, OTHER])
        written = RegisterTable.upsert if mode == "merge" else RegisterTable.fill
        rows: list[int | None] = []

        def watched(self, batch):
            written(self, batch)
            engine = open_engine(world.config.database_url)
            taken = take(engine, world.directory / "backups", registers="all")
            close_quietly(engine)
            rows.extend(file.rows.get("vehicle") for file in taken.manifest.files.values())

        monkeypatch.setattr(RegisterTable, written.__name__, watched)
        (world.directory / "backups").mkdir()
        lines = "".join(f"AB{n}CDE,KIA\n" for n in range(12, 15))
        paths = files(world, a=f"registration,make\n{lines}")
        assert world.load_files(*paths, mode=mode).changed == 3
        assert [count for count in rows if count is not None] == [2]

    @ON_POSTGRES
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_load_that_lost_its_lock_is_abandoned(self, world, monkeypatch, mode):
        """The lock ends with its connection, and then another load may have begun."""
        world.load([CAR])
        lost = RegisterTable.upsert if mode == "merge" else RegisterTable.fill

        def losing(self, rows):
            lost(self, rows)
            with connect(world.config.database_url) as operator:
                pid = world.engine.connection().info.backend_pid
                operator.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))

        monkeypatch.setattr(RegisterTable, lost.__name__, losing)
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n")
        with pytest.raises(OperatorError, match="connection to the database was lost; nothing"):
            world.load_files(*paths, mode=mode)
        monkeypatch.undo()
        assert [row[1] for row in held(world)] == ["FORD"]
        query = "SELECT count(*) FROM pg_namespace WHERE nspname = 'next_register_native'"
        assert world.engine.execute_sql(query).fetchone() == (0,)
        assert world.load_files(*paths, mode=mode).changed == 1

    @ON_POSTGRES
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_lock_that_ended_before_its_connection_counts_as_lost(self, world, monkeypatch, mode):
        """A pooler whose mode was changed gives the session with the lock to others, who end it."""
        world.load([CAR])
        last = RegisterTable.upsert if mode == "merge" else RegisterTable.fill

        def ending(self, rows):
            last(self, rows)
            if not world.engine.in_transaction():
                world.engine.execute_sql("SELECT pg_advisory_unlock_all()")

        monkeypatch.setattr(RegisterTable, last.__name__, ending)
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n")
        with pytest.raises(OperatorError, match="connection to the database was lost; nothing"):
            world.load_files(*paths, mode=mode)
        monkeypatch.undo()
        assert [row[1] for row in held(world)] == ["FORD"]
        assert world.load_files(*paths, mode=mode).changed == 1

    @ON_POSTGRES
    def test_a_load_that_lost_its_lock_leaves_the_next_one_alone(self, world, monkeypatch):
        """After losing its lock, a load leaves the rows of the next load alone."""
        world.load([CAR])
        other = open_engine(world.config.database_url)
        next_schema = 'CREATE SCHEMA "next_register_native"'

        def losing(*_args: object) -> list[str]:
            """End the connection with the lock, and begin another load."""
            pid = world.engine.connection().info.backend_pid
            other.execute_sql("SELECT pg_terminate_backend(%s, 10000)", (pid,))
            another.enter_context(locked(other, "native"))
            Generations(other, "native").remove_unused()
            other.execute_sql(next_schema)
            return []

        monkeypatch.setattr(work_module, "require_rules", losing)
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n")
        with ExitStack() as another:
            with pytest.raises(peewee.PeeweeException):
                world.load_files(*paths, mode="replace")
            with pytest.raises(peewee.ProgrammingError, match="already exists"):
                other.execute_sql(next_schema)
            assert list_loads(world.engine)[0].status == "failed"
        close_quietly(other)

    def test_a_merge_of_nothing_makes_no_register(self, world):
        """A merge without rows takes none of the eight places, and is no fault."""
        result = world.load_files(*files(world, a="registration,make\n"))
        assert (result.rows, result.held) == (0, 0)
        assert [line.status for line in list_loads(world.engine)] == ["done"]
        assert Register.select().count(world.engine) == 0
        assert list(world.directory.glob("*.register_native.*.db*")) == []

    def test_a_merge_of_nothing_changes_nothing(self, world):
        """A merge without rows leaves an existing register unchanged."""
        world.load([CAR])
        result = world.load_files(*files(world, a="registration,make\n"))
        assert (result.changed, result.held_before, result.held) == (0, 1, 1)

    def test_a_reader_sees_the_old_until_the_commit(self, world, alice, monkeypatch):
        """While rows are written, answers, domains and other registers are unaffected."""
        path, seen = "/v1/vehicle/AB12CDE/insurance", []
        world.load([CAR, OTHER])

        upsert = RegisterTable.upsert

        def watched(self, rows):
            upsert(self, rows)
            monkeypatch.undo()
            account_id = 1
            seen.append(alice.get(path).json["vehicle"]["make"])
            seen.append(Domains(world.engine).create_domain(account_id, "example.com", 9).name)
            other = open_engine(world.config.database_url)
            (x,) = files(world, x="registration,make\nA1,X\n")
            request = LoadRequest(files=[str(x)], register="x")
            seen.append(load_module.load(other, world.config.state_dir, request, print).changed)
            close_quietly(other)

        monkeypatch.setattr(RegisterTable, "upsert", watched)
        monkeypatch.setattr("builtins.print", lambda *_: None)
        world.load([CAR | {"make": "SKODA"}])
        assert seen == ["FORD", "example.com", 1]
        assert alice.get(path).json["vehicle"]["make"] == "SKODA"

    def test_a_second_load_of_a_register_is_refused_at_once(self, world):
        """The refusal is in the history; the first load and those of other registers continue."""
        request = LoadRequest(files=[str(*files(world, a="registration,make\nA1,X\n"))])
        told: list[object] = []

        def meanwhile(_member: object) -> None:
            engine = open_engine(world.config.database_url)
            for register in ("native", "other") if not told else ():
                further = request._replace(register=register)
                try:
                    done = load_module.load(engine, world.config.state_dir, further, lambda _: None)
                    told.append(done.changed)
                except OperatorError as refusal:
                    told.append(str(refusal))
            close_quietly(engine)

        result = load_module.load(world.engine, world.config.state_dir, request, meanwhile)
        refusal, changed = told
        assert "another load of the register native is running" in str(refusal)
        assert changed == 1
        assert result.changed == 1
        assert [line.status for line in list_loads(world.engine)] == ["done", "failed", "done"]

    def test_a_load_stopped_as_it_gets_its_line_ends_it(self, world, monkeypatch):
        """A stop that arrives with the commit of the history line waits for its number."""

        def stopped(*args: Any, **columns: Any) -> int:
            number = insert_line(*args, **columns)
            signal.raise_signal(signal.SIGINT)  # Only this thread holds it back.
            return number

        monkeypatch.setattr(load_module, "insert_line", stopped)
        with pytest.raises(KeyboardInterrupt):
            world.load([CAR])
        (line,) = list_loads(world.engine)
        assert (line.status, line.reason) == ("failed", "interrupted")

    def test_a_load_killed_between_its_commits_is_settled_by_the_next(self, world, monkeypatch):
        """If the rows are committed, the next load updates the main database."""
        with monkeypatch.context() as until_then:
            until_then.setattr(modes, "finish_merge", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                world.load([CAR])
        assert [line.status for line in list_loads(world.engine)] == ["running"]
        world.load([OTHER])
        second, first = list_loads(world.engine)
        assert (first.status, first.loaded, first.changed) == ("done", 1, 1)
        assert (second.status, second.loaded, second.changed) == ("done", 1, 1)
        assert Register.select(Register.vehicles).scalar(world.engine) == 2

    @pytest.mark.parametrize("is_killed", [False, True])
    @pytest.mark.parametrize(
        ("content", "options", "is_fresh"),
        [
            ("registration,make\nAB13CDE,SEAT\n", {}, True),
            ('[{"registration": "ZZ99ZZZ", "motTests": [], "modification": "DELETED"}]', {}, True),
            ("registration,make\n", {"empty_ok": True}, True),
            ("registration,make\n", {}, False),
            ("registration,make\n,SEAT\n", {}, False),
        ],
        ids=["rows", "deletions without effect", "--empty-ok", "no rows", "rejects"],
    )
    def test_a_killed_merge_is_as_fresh_as_any(
        self, world, monkeypatch, content, options, is_fresh, is_killed
    ):
        """Whether a register counts as just loaded does not depend on who records it (D51)."""
        world.load([CAR])
        Register.update(loaded_at=1_000).execute(world.engine)
        paths = files(world, a=content)
        with monkeypatch.context() as until_then:
            if is_killed:
                until_then.setattr(modes, "finish_merge", _interrupted)
            with suppress(KeyboardInterrupt):
                world.load_files(*paths, register="native", **options)
        recover(Generations(world.engine, "native"))
        line = list_loads(world.engine)[0]
        assert (line.status, line.rows) == ("done", content.count("SEAT") + content.count("ZZ99"))
        assert (Register.select(Register.loaded_at).scalar(world.engine) > 1_000) == is_fresh

    def test_an_interruption_after_the_commit_is_settled_by_the_next(self, world, monkeypatch):
        """After the commit, Ctrl-C must not make the history say that nothing was loaded."""
        with monkeypatch.context() as until_then:
            until_then.setattr(load_module, "record", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                world.load([CAR])
        world.load([OTHER])
        assert [line.status for line in list_loads(world.engine)] == ["done", "done"]
        assert Register.select(Register.vehicles).scalar(world.engine) == 2

    def test_a_failing_load_keeps_the_rows_of_a_killed_one(self, world, monkeypatch):
        """A load that fails early removes a register only if it made it."""
        with monkeypatch.context() as until_then:
            until_then.setattr(modes, "finish_merge", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                world.load([CAR])
        with monkeypatch.context() as until_then:
            until_then.setattr(register_store.OpenRegister, "migrate", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                world.load([OTHER])
        world.load([OTHER])
        assert Register.select(Register.vehicles).scalar(world.engine) == 2

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_dry_run_after_a_killed_first_load_writes_nothing(self, world, mode):
        """A dry run neither completes nor cleans up a killed load."""
        Generations(world.engine, "native").add(begun(world.engine, "native"))
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n")
        before = stored(world)
        result = world.load_files(*paths, mode=mode, dry_run=True)
        assert (result.held_before, result.held) == (0, 1)
        assert stored(world) == before

    def test_a_dry_run_fails_where_rejects_cannot_be_written(self, world):
        """A dry run fails like the load: the operator named the rejects file."""
        (world.directory / "file").write_text("")
        options = {"rejects": world.directory / "file" / "rejects.csv"}
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n,KIA\n")
        for dry_run in (True, False):
            with pytest.raises(OSError, match="File exists"):
                world.load_files(*paths, dry_run=dry_run, **options)

    @pytest.mark.parametrize("kind", ["vehicles", "fines"])
    def test_a_dry_run_counts_what_a_killed_merge_left(self, world, monkeypatch, kind):
        """Rows that were committed but not recorded count, as they do for the load."""
        header = "registration,make" if kind == "vehicles" else "registration,reference,amount"

        def rows(start, count):
            lines = (f"AB{n:05},{'FORD' if kind == 'vehicles' else 'F1,5'}\n" for n in range(count))
            return files(world, a=f"{header}\n" + "".join(list(lines)[start:]))

        world.load_files(*rows(0, 100), mode="replace")
        with monkeypatch.context() as until_then:
            until_then.setattr(modes, "finish_merge", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                world.load_files(*rows(100, 150))
        for dry_run in (True, False):
            with pytest.raises(
                OperatorError, match=f"rows: 20 of 150 {kind} in force would be gone"
            ):
                world.load_files(*rows(0, 130), mode="replace", dry_run=dry_run)

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_dry_run_writes_nothing(self, world, mode):
        """A dry run leaves an existing register unchanged."""
        world.load([CAR])
        paths = files(world, a="registration,make\nAB12CDE,SEAT\n")
        before = stored(world)
        assert world.load_files(*paths, mode=mode, dry_run=True).changed == 1
        assert stored(world) == before


def stored(world):
    """Return everything stored: what the store holds, its schemas, and all file names."""
    close_quietly(world.engine)
    names = sorted(path.name for path in world.directory.rglob("*"))
    schemas = []
    if isinstance(world.engine, PostgresEngine):
        query = "SELECT nspname FROM pg_namespace ORDER BY 1"
        schemas = world.engine.execute_sql(query).fetchall()
        close_quietly(world.engine)
    return names, schemas, world.store.content()


def _interrupted(*_args: object, **_options: object) -> None:
    raise KeyboardInterrupt


class TestContainers:
    CSV = b"registration,make\nAB12CDE,FORD\n" + b"".join(
        b"AB%03dXY,%d\n" % (n, n * n) for n in range(500)
    )

    def test_gzip_is_read_as_it_is(self, world):
        """A compressed file needs neither a special name nor unpacking."""
        assert world.load_files(*files(world, a=gzip.compress(self.CSV))).loaded == 501

    @pytest.mark.parametrize("missing_bytes", [1, 8, 500])
    def test_a_gzip_that_is_cut_off_changes_nothing(self, world, missing_bytes):
        """A truncated gzip file changes nothing, even after many good rows."""
        world.load([CAR])
        cut = gzip.compress(self.CSV)[:-missing_bytes]
        with pytest.raises(OperatorError, match="cut off"):
            world.load_files(*files(world, a=cut))
        assert len(held(world)) == 1

    @pytest.mark.parametrize("content", [CSV, gzip.compress(CSV)], ids=["plain", "gzip"])
    def test_standard_input_is_read(self, world, monkeypatch, content):
        """`-` reads standard input, compressed or not."""
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        request = LoadRequest(files=["-"])
        result = load_module.load(world.engine, world.config.state_dir, request, lambda _: None)
        assert result.loaded == 501
        assert list_loads(world.engine)[0].files == "-"


@ON_POSTGRES
@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_loaded_tables_are_analysed(world, mode):
    """Postgres' planner knows the number of rows after any kind of load."""
    world.load_files(*files(world, cars="registration,make\nAB12CDE,FORD\n"), mode=mode)
    query = "SELECT reltuples FROM pg_class WHERE oid = 'register_native.vehicle'::regclass"
    assert world.engine.execute_sql(query).fetchone() == (1,)


@ON_POSTGRES
@pytest.mark.parametrize("kind", ["vehicle", "policy"])
def test_a_register_that_grows_is_not_read_over_and_over(world, monkeypatch, kind):
    """Rows are found by key, although the planner has no statistics of rows just written."""
    monkeypatch.setattr(sorting, "_BATCH_ROWS", 200)
    world.load([CAR, POLICY] if kind == "policy" else [CAR])
    before = rows_read(world, kind)
    plates = [f"AB{n:05}" for n in range(4_000)]
    world.load([(CAR if kind == "vehicle" else POLICY) | {"registration": p} for p in plates])
    until(lambda: rows_read(world, kind)[0] > 4_000, "the statistics")
    assert rows_read(world, kind)[1] - before[1] < 2 * 4_000


def rows_read(world, kind: str) -> Any:
    """Return how many rows were written to a table and read from it, as Postgres counts."""
    query = (
        "SELECT n_tup_ins, seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables "
        "WHERE schemaname = 'register_native' AND relname = %s"
    )
    with connect(world.config.database_url) as operator:
        return operator.execute(query, (kind,)).fetchone()
