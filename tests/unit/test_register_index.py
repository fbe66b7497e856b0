"""Registers are added, changed and removed; workers follow with the next request (D25, D26)."""

import pytest

from app.accounts.authentication import Authenticator
from app.registers.undo import drop_register, purge_register, roll_back, undrop_register
from app.storage import registers
from app.storage.files import register_file
from app.storage.register_files import other_files
from app.storage.registers import REGISTERS_MAX, Register, in_precedence
from app.storage.stores import store_of
from app.storage.tables import Kind, RegisterRef, Vehicle
from app.storage.versions import migrate_register
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE
from tests.rows import each_row

pytestmark = STORAGE

PLATE = "AB12CDE"
ADDRESS = f"/v1/vehicle/{PLATE}/insurance"


def make_of(client):
    """Return the make that the service answers; its status if there is none."""
    answer = client.get(ADDRESS)
    return answer.json["vehicle"]["make"] if answer.status_int == 200 else answer.status_int


def describe(world, make, register="native"):
    world.load([{"registration": PLATE, "make": make}], register=register)


def build_generation(world, generation, make, register="native"):
    """Build the next generation of a register next to the current one."""
    with store_of(world.engine, register).opened(generation) as (engine, schema):
        migrate_register(engine, schema)
        Vehicle.insert(registration=PLATE, make=make, updated=0).execute(engine)


def file_of(world, register="native", generation=1):
    return register_file(world.database, register, generation)


class TestState:
    @each_row(
        ("state", "order", "names"),
        [
            ("", ("native",), []),
            ("native/1/v", (), ["native"]),
            ("mid/1/p,native/1/v,rdw/3/v", ("native", "rdw"), ["native", "rdw", "mid"]),
            ("alpha/1/v,native/1/v,zeta/1/v", ("zeta", "native"), ["zeta", "native", "alpha"]),
            ("alpha/1/v,beta/1/v", ("dvsa", "beta"), ["beta", "alpha"]),
            ("alpha/1/,beta/1/v", (), ["beta"]),
        ],
    )
    def test_registers_are_read_in_order_of_precedence(self, state, order, names):
        """Registers of the setting come first, others by name; those never loaded are left out."""
        assert [ref.name for ref in in_precedence(state, order)] == names

    def test_a_register_says_what_it_holds(self):
        """The entry has name, generation and kinds."""
        (ref,) = in_precedence("rdw/12/fv", ())
        assert ref == RegisterRef("rdw", 12, "fv")
        assert ref.schema == "register_rdw"
        assert [ref.holds(kind) for kind in Kind] == [1, 0, 1]

    def test_each_generation_has_a_file_of_its_own(self, tmp_path):
        """The file lies next to the main database, named after register and generation (D25)."""
        path = register_file(tmp_path / "verifyd.db", "rdw", 3)
        assert path == tmp_path / "verifyd.register_rdw.3.db"

    @pytest.mark.parametrize("name", ["verifyd.db", "verifyd", "[a]*.db"])
    def test_other_files_are_those_of_registers(self, tmp_path, name):
        """A restore puts them aside; logs and locks of those that stay are not among them."""
        database = tmp_path / name
        current, former = (register_file(database, "rdw", number) for number in (3, 2))
        lock = database.with_name(f"{database.stem}.register_rdw.lock")
        log = current.with_name(f"{current.name}-wal")
        others = register_file(tmp_path / "others.db", "rdw", 1)
        for path in (database, current, former, lock, log, others):
            path.touch()
        assert other_files(database, [current]) == [former]


class TestFollowing:
    def test_the_first_register_counts_from_the_next_request(self, world, alice):
        """An application that runs without registers answers from the first one at once."""
        assert make_of(alice) == 404
        describe(world, "Ford")
        assert make_of(alice) == "Ford"

    def test_a_further_register_counts_from_the_next_request(self, world, alice):
        """A register with precedence decides from the next request on."""
        describe(world, "Opel", register="rdw")
        assert make_of(alice) == "Opel"
        describe(world, "Ford", register="native")
        assert make_of(alice) == "Ford"

    def test_a_first_policy_counts_from_the_next_request(self, world, alice):
        """A kind that is new in a register is queried from the next request on."""
        describe(world, "Ford")
        assert alice.get(ADDRESS).json["policy"] is None
        dates = {"validFrom": "2025-01-01", "validTo": "2025-12-31"}
        world.load([{"registration": PLATE, "number": "P-1", **dates}])
        assert alice.get(ADDRESS).json["policy"]["number"] == "P-1"

    def test_changed_rows_count_from_the_next_request(self, world, alice):
        """A merge into the same generation needs no new attachment."""
        describe(world, "Ford")
        assert make_of(alice) == "Ford"
        describe(world, "Opel")
        assert make_of(alice) == "Opel"

    @ON_SQLITE
    def test_a_new_generation_counts_from_the_next_request(self, world, alice):
        """A commit in the main database moves every reader to the new generation."""
        describe(world, "Ford")
        assert make_of(alice) == "Ford"
        build_generation(world, 2, "Opel")
        assert make_of(alice) == "Ford"
        Register.update(generation=2, stamp=None).execute(world.engine)
        assert make_of(alice) == "Opel"
        Register.update(generation=1).execute(world.engine)
        assert make_of(alice) == "Ford"

    @ON_SQLITE
    def test_the_old_generation_can_be_deleted(self, world, alice):
        """No reader uses the old file once the main database names another."""
        describe(world, "Ford")
        assert make_of(alice) == "Ford"
        build_generation(world, 2, "Opel")
        Register.update(generation=2, stamp=None).execute(world.engine)
        file_of(world).unlink()
        assert make_of(alice) == "Opel"

    def test_a_dropped_register_is_forgotten_at_once(self, world, alice):
        """Vehicles of a dropped register are unknown from the next request; others stay."""
        describe(world, "Ford", register="native")
        describe(world, "Opel", register="rdw")
        assert make_of(alice) == "Ford"
        Register.delete().where(Register.name == "native").execute(world.engine)
        assert make_of(alice) == "Opel"
        Register.delete().execute(world.engine)
        assert make_of(alice) == 404

    def test_a_register_without_rows_is_not_looked_for(self, world, alice):
        """An entry whose first load still runs, or was killed, has no file."""
        Register.insert(name="rdw", generation=7, kinds="").execute(world.engine)
        assert make_of(alice) == 404
        describe(world, "Ford")
        assert make_of(alice) == "Ford"

    def test_nothing_is_attached_twice(self, world, alice, statements):
        """Registers are attached when they change, not for each request."""
        describe(world, "Ford")
        make_of(alice)
        with statements() as seen:
            make_of(alice)
        assert not [sql for sql in seen if "ATTACH" in sql]

    def test_eight_registers_are_read_at_once(self, world, alice):
        """Eight registers, the maximum, answer together."""
        names = [f"agency{number}" for number in range(REGISTERS_MAX)]
        for name in names:
            world.load([{"registration": f"{name}X", "make": name}], register=name)
        describe(world, "Last", register=names[-1])
        sent = {"registrations": [f"{name}x" for name in names]}
        answer = alice.post("/v1/vehicle/bulk-insurance", sent)
        assert (answer.json["successful"], answer.json["failed"]) == (REGISTERS_MAX, 0)
        assert make_of(alice) == "Last"


class TestTakenAway:
    """Registers that change between the reading of their state and the look-up (D72)."""

    @pytest.fixture
    def later(self, monkeypatch):
        """`later(CHANGE)` makes a change as soon as the next state was read."""

        def set_up(change):
            def find_caller(authenticator, key):
                caller = found(authenticator, key)
                monkeypatch.undo()
                change()
                return caller

            found = Authenticator.find_caller
            monkeypatch.setattr(Authenticator, "find_caller", find_caller)

        return set_up

    @pytest.fixture
    def changes(self, world):
        """Return changes of the register native, which has a Ford and before that an Opel."""
        path = world.directory / "rows.csv"

        def replace(make="Seat"):
            path.write_text(f"registration,make\n{PLATE},{make}\n")
            world.load_files(path, mode="replace")

        for make in ("Opel", "Ford"):
            replace(make)
        return {
            "drop": (lambda: drop_register(world.engine, "native"), 404),
            "purge": (lambda: purge_register(world.engine, "native"), 404),
            "rollback": (lambda: roll_back(world.engine, "native", None), "Opel"),
            "replace": (replace, "Seat"),
            "two replaces": (lambda: (replace(), replace("Kia")), "Kia"),
            "undrop": (lambda: undrop_register(world.engine, "native"), "Ford"),
        }

    @pytest.mark.parametrize(
        "name", ["drop", "purge", "rollback", "replace", "two replaces", "undrop"]
    )
    def test_a_look_up_is_answered_all_the_same(self, world, alice, changes, later, name):
        """The answer is the former or the new one, also in bulk; the next one is new."""
        describe(world, "Kept", register="other")
        change, after = changes[name]
        if name == "undrop":
            changes["drop"][0]()
        before = make_of(alice)
        later(change)
        after = "Kept" if after == 404 else after
        assert make_of(alice) in (before, after)
        assert make_of(alice) == after

    def test_a_bulk_look_up_and_the_readiness_too(self, world, alice, changes, later):
        """Bulk look-ups and readiness read the same state, and repeat."""
        describe(world, "Kept", register="other")
        later(changes["purge"][0])
        answer = alice.post("/v1/vehicle/bulk-insurance", {"registrations": [PLATE]})
        assert (answer.status_int, answer.json["successful"]) == (200, 1)

    def test_readiness_follows(self, world, changes, monkeypatch):
        """A register that is dropped while readiness tries it does not count as missing."""
        states = iter([registers.read_state(world.engine)])
        changes["purge"][0]()
        read = registers.read_state
        monkeypatch.setattr(registers, "read_state", lambda engine: next(states, read(engine)))
        assert registers.find_unreadable(world.engine) is None

    def test_a_look_up_without_trouble_asks_once(self, world, alice, statements, changes):
        """A look-up without interference needs no extra statement."""
        make_of(alice)
        with statements() as seen:
            make_of(alice)
        assert [each for each in seen if '"api_key"' not in each] == seen[-1:]


@ON_SQLITE
class TestMissingFile:
    @pytest.fixture
    def lost(self, world):
        """A register whose file is missing."""
        describe(world, "Ford")
        file_of(world).rename(world.directory / "lost")
        return world.directory / "lost"

    @pytest.mark.parametrize("path", [ADDRESS, f"/v1/compliance/{PLATE}"])
    def test_vehicles_are_unavailable(self, lost, alice, path):
        """A look-up gives 503 with Retry-After: without the register it could be wrong."""
        answer = alice.get(path)
        assert (answer.status_int, answer.json["code"]) == (503, "database_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1

    def test_bulk_is_unavailable_as_a_whole(self, lost, alice):
        """A bulk look-up fails as a whole, and calls no item not found."""
        answer = alice.post("/v1/vehicle/bulk-insurance", {"registrations": [PLATE]})
        assert (answer.status_int, answer.json["code"]) == (503, "database_unavailable")

    def test_domains_go_on(self, lost, alice):
        """Domains can be listed and created without registers."""
        for name in ("a.example.com", "b.example.com"):
            assert alice.get(ADDRESS).status_int == 503
            assert alice.post("/api/domains", {"name": name}).status_int == 201
        assert len(alice.get("/api/domains").json["domains"]) == 2

    def test_it_heals_when_the_file_is_back(self, lost, world, alice):
        """Once the file is back, the next request succeeds without a restart."""
        assert make_of(alice) == 503
        lost.rename(file_of(world))
        assert make_of(alice) == "Ford"

    def test_a_lost_register_beside_a_sound_one_fails_too(self, lost, world, alice):
        """The other register alone does not answer; dropping the lost one helps."""
        describe(world, "Opel", register="rdw")
        assert make_of(alice) == 503
        Register.delete().where(Register.name == "native").execute(world.engine)
        assert make_of(alice) == "Opel"

    def test_a_file_is_never_made_by_reading(self, lost, world, alice):
        """Reading does not create the missing file."""
        assert make_of(alice) == 503
        assert not file_of(world).exists()

    def test_a_damaged_file_is_unavailable(self, world, alice):
        """A file that is no database gives 503, like a missing one."""
        describe(world, "Ford")
        file_of(world).write_bytes(b"not a database" * 1000)
        assert make_of(alice) == 503
        assert alice.get("/api/domains").status_int == 200


@ON_POSTGRES
def test_a_schema_that_is_gone_is_unavailable(world, alice):
    """A schema that is dropped during a request gives 503, not 500."""
    describe(world, "Ford")
    world.engine.execute_sql("ALTER SCHEMA register_native RENAME TO lost")
    assert make_of(alice) == 503
    assert alice.get("/api/domains").status_int == 200
    world.engine.execute_sql("ALTER SCHEMA lost RENAME TO register_native")
    assert make_of(alice) == "Ford"
