"""A column that the operator names marks the rows of a native or mapped file to remove."""

import json
import os
from datetime import date
from typing import Any

import pytest

from app import clock
from app.registers.applying.answers import LoadBasis
from app.registers.change import change_of
from app.registers.formats import FORMATS, FileFault, formats_of
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.registers.history import list_loads
from app.registers.reading import reader
from app.registers.reading.rejects import RejectLimit, TooManyRejects
from app.registers.rules import RulesBroken
from app.registers.undo import roll_back
from app.storage.registers import list_entries
from app.storage.tables import Fine, Kind, Policy, Vehicle
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row
from tests.unit.register_files import outcome, read
from tests.unit.test_load import files, held
from tests.unit.watched import Watched

DAY = "2026-03-01"
CARS = "registration,make,year\nA1,FORD,2012\nA2,SEAT,2013\nA3,VW,2014\n"
POLICIES = (
    "registration,insurer,number,validFrom,validTo\n"
    "A1,Acme,P-1,2026-01-01,2026-12-31\nA1,Bolt,P-1,2026-01-01,2026-12-31\n"
    "A1,Acme,P-1,2025-01-01,2025-12-31\nA2,Acme,P-2,2026-01-01,2026-12-31\n"
)
FINES = "registration,reference,amount\nA1,F-1,65\nA1,F-2,65\nA2,F-1,65\n"
KINDS: dict[Kind, tuple[str, str, Any, int, list[str]]] = {
    Kind.VEHICLES: (CARS, "registration,deleted\nA2,true\n", Vehicle, 1, ["A1", "A3"]),
    Kind.POLICIES: (
        POLICIES,
        "registration,insurer,number,validFrom,deleted\nA1,Acme,P-1,2026-01-01,true\n",
        Policy,
        4,
        ["A1 Acme P-1 2025-01-01", "A1 Bolt P-1 2026-01-01", "A2 Acme P-2 2026-01-01"],
    ),
    Kind.FINES: (
        FINES,
        "registration,reference,deleted\nA1,F-1,true\n",
        Fine,
        2,
        ["A1 F-2", "A2 F-1"],
    ),
}
"""By kind: a file, one that removes a row of it, and the keys that are left."""


@pytest.fixture
def load(world):
    """`load(CONTENT, ...)` loads files with a column `deleted` in one load."""

    def run(*contents: str, deleted: str = "deleted", **options: Any):
        named = {f"f{n}": content for n, content in enumerate(contents)}
        options.setdefault("basis", LoadBasis(DAY))
        options.setdefault("accept", ("rows", "insured", "insurers"))
        options = {"formats": formats_of(deleted=deleted), "deleted": deleted} | options
        return world.load_files(*files(world, **named), **options)

    return run


@pytest.fixture
def mapped(world):
    """`mapped(TOML)` returns the options that load files by a mapping."""

    def options(toml: str) -> dict[str, Any]:
        path = world.directory / "map.toml"
        path.write_text(toml, encoding="utf-8")
        format_ = MappedCsv(read_mapping(path))
        named = {"format": format_.name, "register": "native", "deleted": None}
        return {"formats": {format_.name: format_}} | named

    return options


@pytest.fixture
def start(world):
    """`start(CONTENT)` loads a file that removes no row."""
    return lambda content: world.load_files(*files(world, start=content))


def keys(world, model: Any = Vehicle, columns: int = 1) -> list[str]:
    """Return the keys of all rows, each as a text."""
    return [" ".join(map(str, row[:columns])) for row in held(world, model)]


@STORAGE
class TestMerge:
    @pytest.mark.parametrize("kind", Kind)
    def test_a_marked_row_is_removed(self, world, load, start, kind):
        """A marked row needs only its key, and removes the row with that key and no other."""
        content, marked, model, columns, left = KINDS[kind]
        start(content)
        result = load(marked)
        assert (result.loaded, result.changed, result.rejected) == (1, 1, 0)
        assert keys(world, model, columns) == left
        again = load(marked)
        assert (again.changed, again.loaded, again.skipped) == (0, 0, 1), "now its key is unknown"

    def test_other_values_of_a_marked_row_do_not_count(self, world, load, start):
        """Values beside the key are not read, whatever they are, nor counted as unreadable."""
        start(POLICIES)
        header = "registration,insurer,number,validFrom,validTo,cancelledOn,lastUpdated,deleted\n"
        result = load(f"{header}A2,Acme,P-2,2026-01-01,soon,30.02.2026,yesterday,true\n")
        assert (result.changed, result.rejected, result.notes) == (1, 0, [])
        assert "A2 Acme P-2 2026-01-01" not in keys(world, Policy, 4)

    def test_a_marked_row_needs_its_key(self, world, load, start):
        """Without its whole key nothing says which row is meant, so it is rejected."""
        start(POLICIES)
        result = load("registration,number,validFrom,deleted\nA2,P-2,,true\n,P-2,2026-01-01,1\n")
        assert [each.reason for each in result.reasons] == ["no validFrom", "no registration"]
        assert len(held(world, Policy)) == 4

    def test_a_file_without_insurers_means_all(self, world, load, start):
        """Without the column insurer a policy is removed whatever its insurer is."""
        start(POLICIES)
        assert load("registration,number,validFrom,deleted\nA1,P-1,2026-01-01,yes\n").changed == 2
        assert keys(world, Policy, 4) == ["A1 Acme P-1 2025-01-01", "A2 Acme P-2 2026-01-01"]
        with_column = "registration,insurer,number,validFrom,deleted\nA2,,P-2,2026-01-01,yes\n"
        assert load(with_column).skipped == 1, "an empty cell is an unknown insurer"

    @pytest.mark.parametrize(
        ("rows", "left"),
        [
            ("A2,SEAT,,\nA2,,,true\n", ["A1", "A3"]),
            ("A2,,,true\nA2,SEAT,,\n", ["A1", "A2", "A3"]),
            ("A2,,,true\nA2,,,true\n", ["A1", "A3"]),
            ("A9,KIA,,\nA9,,,true\n", ["A1", "A2", "A3"]),
        ],
    )
    def test_the_last_row_of_a_key_counts(self, world, load, start, rows, left):
        """Of several rows with a key the last one counts, also across the files of a load."""
        start(CARS)
        header = "registration,make,year,deleted\n"
        first, second = rows.splitlines(keepends=True)
        load(header + rows, dry_run=True)
        load(header + first, header + second)
        assert keys(world) == left

    def test_a_narrow_row_after_a_deletion_is_new(self, world, load, start):
        """A row that comes back keeps nothing of the one that was removed before it."""
        start(CARS)
        load("registration,make,deleted\nA2,,true\nA2,KIA,\n")
        assert held(world)[1][:4] == ("A2", "KIA", None, None)

    def test_a_first_load_begins_with_what_is_left(self, world, load):
        """In an empty register the rows that are removed at the end of the file never arrive."""
        result = load("registration,make,deleted\nA1,FORD,false\nA2,SEAT,\nA1,,true\n")
        assert (result.loaded, result.changed, keys(world)) == (3, 1, ["A2"])

    def test_deletions_alone_make_no_register(self, world, load):
        """A file of deletions of unknown keys changes nothing, and no register appears."""
        result = load("registration,deleted\nA1,true\nA2,true\n")
        assert (result.changed, result.skipped) == (0, 2)
        assert list_entries(world.engine) == []

    @pytest.mark.parametrize("as_text", [json.dumps, lambda rows: "\n".join(map(json.dumps, rows))])
    def test_json_marks_rows_too(self, world, load, start, as_text):
        """In JSON the member is true; rows without it are loaded, and no row needs it."""
        start(POLICIES)
        gone = {"registration": "A1", "number": "P-1", "insurer": "Bolt", "deleted": True}
        gone["validFrom"] = "2026-01-01"
        new = gone | {"registration": "A7", "validTo": "2026-12-31", "deleted": None}
        assert load(as_text([gone, new])).changed == 2
        assert keys(world, Policy, 4)[1:] == [
            "A1 Acme P-1 2026-01-01",
            "A2 Acme P-2 2026-01-01",
            "A7 Bolt P-1 2026-01-01",
        ]
        quiet = {name: value for name, value in new.items() if name != "deleted"}
        assert load(as_text([quiet])).changed == 0
        # No row of this load has the member insurer, so that of the policy does not matter.
        del gone["insurer"]
        assert load(as_text([gone | {"registration": "A7"}])).changed == 1

    def test_pieces_of_a_large_file_are_read_alike(self, world, load, start, monkeypatch):
        """Many rows, read in pieces and blocks, with narrow rows and marked ones among them."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 5_000)
        plates = [f"AB{n:04}" for n in range(3_000)]
        start("registration,make\n" + "".join(f"{plate},FORD\n" for plate in plates))
        lines = [f"{plate},2012,{int(n % 100 == 7)}\n" for n, plate in enumerate(plates)]
        result = load("registration,year,deleted\n" + "".join(lines))
        assert (result.loaded, result.changed, result.held) == (3_000, 3_000, 2_970)
        assert {(row[1], row[3]) for row in held(world)} == {("FORD", 2012)}


@STORAGE
class TestReplace:
    def test_a_marked_row_is_skipped(self, world, load, start):
        """Marked rows are not stored and count as skipped; of a key the last row counts."""
        start(CARS)
        header = "registration,make,deleted\n"
        result = load(f"{header}A1,FORD,\nA2,,true\nA4,KIA,no\nA3,,1\nA4,,1\n", mode="replace")
        assert (result.rows, result.loaded, result.skipped, result.held) == (5, 2, 3, 1)
        assert keys(world) == ["A1"]

    def test_rows_of_one_plate_stay_in_order(self, world, load, start):
        """Policies of a plate in any order, some of them marked, are each compared once."""
        start(POLICIES)
        header, *rows = POLICIES.replace("A1,", "A3,").splitlines()
        start("\n".join([header, *rows, ""]))
        one, two, marked, _ = rows
        lines = [f"{header},deleted", f"{two},", f"{one},", f"{marked},", f"{marked},true", ""]
        change = load("\n".join(lines), mode="replace").change
        assert (change.added, change.updated, change.removed) == (0, 0, 5)
        assert keys(world, Policy, 4) == ["A3 Acme P-1 2026-01-01", "A3 Bolt P-1 2026-01-01"]

    def test_a_file_of_deletions_only_is_refused(self, world, load, start):
        """It would remove all rows."""
        start(CARS)
        only = "registration,deleted\nA1,true\nA2,true\n"
        with pytest.raises(RulesBroken, match="no vehicles would be left of 3"):
            load(only, mode="replace", accept=())
        assert load(only).held == 1, "a merge removes them"

    @ON_SQLITE
    def test_two_processes_count_alike(self, world, load, start, monkeypatch):
        """Each half of the keys counts the marked rows that it skips."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 5_000)
        lines = [f"AB{n:04},FORD,{n % 2}\n" for n in range(3_000)]
        result = load("registration,make,deleted\n" + "".join(lines), mode="replace")
        assert (result.loaded, result.skipped, result.held) == (1_500, 1_500, 1_500)


@STORAGE
class TestAround:
    def test_removed_rows_are_losses(self, world, load, start):
        """Deletions break the rules as rows that a replace leaves out do, and add up."""
        header = "registration,insurer,number,validFrom,validTo"
        rows = [f"AB{n:03},Acme,P-{n},2026-01-01,2026-12-31" for n in range(200)]
        start("\n".join([header, *rows, ""]))

        def marked(*numbers: int) -> str:
            return "\n".join([f"{header},deleted", *(f"{rows[n]},true" for n in numbers), ""])

        with pytest.raises(RulesBroken) as refused:
            load(marked(*range(21)), accept=())
        assert sorted(refused.value.broken) == ["insured", "insurers", "rows"]
        load(marked(*range(8)), accept=())
        with pytest.raises(RulesBroken) as added_up:
            load(marked(*range(8, 16)), accept=())
        assert "insured" in added_up.value.broken
        assert len(held(world, Policy)) == 192

    @pytest.mark.parametrize(
        "row", ["registration,make\nFORD", "registration,reference,amount\nF,9"]
    )
    def test_vehicles_and_fines_are_losses(self, load, start, row):
        """The same of rows of the other kinds."""
        header, values = row.splitlines()
        rows = [f"AB{n:03},{values}" for n in range(100)]
        start("\n".join([header, *rows, ""]))
        with pytest.raises(RulesBroken, match=r"50 of 100 .* in force would be gone"):
            load(
                "\n".join([f"{header},deleted", *(f"{each},true" for each in rows[:50]), ""]),
                accept=(),
            )

    def test_history_and_rollback_know_them(self, world, load, start):
        """The history counts what was removed; a rollback brings rows of a replace back."""
        start(CARS)
        header = "registration,make,year,deleted\n"
        load(f"{header}A1,FORD,2012,\nA2,,,true\nA3,VW,2014,\n", mode="replace")
        assert keys(world) == ["A1", "A3"]
        line = list_loads(world.engine)[0]
        assert (line.rows, line.skipped, line.changed) == (3, 1, 1)
        roll_back(world.engine, "native", Kind.VEHICLES)
        assert keys(world) == ["A1", "A2", "A3"]
        load(f"{header}A2,,,true\n")
        line = list_loads(world.engine)[0]
        assert (line.mode, line.loaded, line.changed, line.held) == ("merge", 1, 1, 2)
        change = change_of(line)
        assert (change and change.removed) == 1

    def test_watches_know_them(self, world, alice, load, start, monkeypatch):
        """A policy that is removed is an event, and the answers know it at once."""
        monkeypatch.setattr(clock, "today", lambda _: date.fromisoformat(DAY))
        start(POLICIES)
        watched = Watched(world.config, world.engine)
        watched.watch("A2")
        load("registration,number,validFrom,deleted\nA2,P-2,2026-01-01,true\n")
        watched.sweep()
        assert [event.type for event in watched.new_events()] == ["vehicle.unknown"]
        assert alice.get("/v1/vehicle/A2/insurance").status_code == 404


class TestWords:
    @each_row("word", ["true", "TRUE", "yes", "1", "1.0", " true "])
    def test_words_for_deleted(self, word):
        """The words for true are those of other flags."""
        native = formats_of(deleted="gone")["native-csv"]
        assert outcome(f"registration,gone\nA1,{word}\n", native) == ("A1", ())

    @each_row("word", ["false", "No", "0", "0.0", "", "null"])
    def test_words_for_a_row(self, word):
        """False and a missing value mean a row like any other."""
        native = formats_of(deleted="gone")["native-csv"]
        (row,), _ = read(f"registration,gone\nA1,{word}\n", native)
        assert (row[0], len(row)) == ("A1", len(Vehicle._meta.sorted_fields))

    @each_row("word", ["x", "deleted", "2", "true false", "2026-03-01", "-"])
    def test_any_other_word_rejects_the_row(self, word):
        """Nothing else says whether the row is meant to stay."""
        native = formats_of(deleted="gone")["native-csv"]
        assert str(outcome(f"registration,gone\nA1,{word}\n", native)).startswith(
            "deleted: neither true nor false"
        )

    @each_row("value", ["{}", "[true]", '"maybe"', "2"])
    def test_any_other_value_of_json_rejects_the_row(self, value):
        """The same in JSON."""
        native = formats_of(deleted="deleted")["native-ndjson"]
        told = outcome(f'{{"registration":"A1","deleted":{value}}}\n', native)
        assert str(told).startswith("deleted: ")


@ON_SQLITE
class TestMapped:
    MAPPING = (
        'kind = "policies"\ndelimiter = ";"\ndate_format = "DD.MM.YYYY"\n[columns]\n'
        'registration = "Kennzeichen"\nnumber = "Vertrag"\nvalidFrom = "Beginn"\n'
        'validTo = "Ende"\ndeleted = "Status"\n[constants]\ninsurer = "Acme"\n'
        "[words.deleted]\nstorniert = true\naktiv = false\n"
    )

    def test_a_mapping_names_the_column(self, world, load, start, mapped):
        """Its words, dates and constants hold for rows to remove, too."""
        start(POLICIES)
        rows = "A1;P-1;01.01.2026;;storniert\nA2;P-2;01.01.2026;31.12.2027;Aktiv\nA3;P;;;weg\n"
        text = f"Kennzeichen;Vertrag;Beginn;Ende;Status\n{rows}"
        result = load(text, **mapped(self.MAPPING))
        assert (result.loaded, result.changed, result.rejected) == (2, 2, 1)
        (reason,) = result.reasons
        assert "neither true nor false; [words.deleted] of a mapping" in reason.reason
        assert keys(world, Policy, 5) == [
            "A1 Acme P-1 2025-01-01 2025-12-31",
            "A1 Bolt P-1 2026-01-01 2026-12-31",
            "A2 Acme P-2 2026-01-01 2027-12-31",
        ]

    def test_a_suggested_mapping_asks(self, cli):
        """It does not guess what removes rows, and says what the column could be."""
        made = cli.run(
            "import", "--suggest-map", cli.file("a.csv", "Plate,Make,Deleted", "A1,KIA,1")
        )
        assert '"Deleted": could be deleted\n' in made.stdout
        assert "deleted =" not in made.stdout

    def test_a_file_of_deletions_needs_no_other_column(self, world, load, start, mapped):
        """A mapping with the key and `deleted` is complete; rows without the mark are rejected."""
        start(POLICIES)
        names = [*self.MAPPING.splitlines()[:7], 'deleted = "Status"', ""]
        text = "Kennzeichen;Vertrag;Beginn;Status\nA2;P-2;01.01.2026;1\nA2;P-3;01.01.2026;\n"
        result = load(text, **mapped("\n".join(names)))
        (rejected,) = result.reasons
        assert (result.changed, rejected.reason.partition(";")[0]) == (1, "no validTo")
        fines = 'kind = "fines"\n[columns]\nregistration = "a"\nreference = "b"\ndeleted = "c"\n'
        assert load("a,b,c\nA1,F-1,true\n", **mapped(fines)).skipped == 1

    def test_the_column_must_be_there(self, load, start, mapped):
        """A file that has lost the column would bring removed rows back, so it is refused."""
        start(CARS)
        toml = 'kind = "vehicles"\n[columns]\nregistration = "Plate"\ndeleted = "Gone"\n'
        with pytest.raises(FileFault, match=r"no column Gone; .*--allow-missing Gone"):
            load("Plate\nA1\n", **mapped(toml))
        assert load("Plate\nA1\n", allow_missing=["gone"], **mapped(toml)).changed == 0


@ON_SQLITE
class TestColumn:
    def test_a_native_csv_without_the_column_is_refused(self, world, load, start):
        """The header of a CSV must have the column, unless the operator allows that it is gone."""
        start(CARS)
        with pytest.raises(FileFault, match=r"no column Weg; .*--allow-missing Weg"):
            load(CARS, deleted="Weg")
        assert load(CARS, deleted="Weg", allow_missing=["Weg"]).changed == 0
        assert load("registration,WEG\nA1,1\n", deleted="Weg").changed == 1

    def test_live_rows_still_need_all_members(self, load, start):
        """A policy that is not removed is rejected without its last day, as ever."""
        start(POLICIES)
        with pytest.raises(TooManyRejects):
            load(
                "registration,number,validFrom,deleted\nA2,P-2,2026-01-01,false\n",
                max_rejects=RejectLimit.parse("1%"),
            )

    def test_an_unread_column_is_noted_with_the_remedy(self, world, start, load, mapped):
        """A column that looks like one of deletions is not read, and the note says how it is."""
        note = "; to remove them, use --deleted "
        for name in ("deleted", "isDeleted", "Is deleted"):
            notes = start(f"registration,{name}\nA1,true\n").notes
            assert any(
                text.split(note)[1:] == [name if " " not in name else f"'{name}'"] for text in notes
            ), notes
        assert keys(world) == ["A1"]
        assert not any("--deleted" in each for each in start(CARS).notes)
        plain = mapped('kind = "vehicles"\n[columns]\nregistration = "Plate"\n')
        (note,) = load("Plate,Deleted\nA1,true\n", **plain).notes
        assert note.endswith(
            "marks are loaded; to remove them, name it as deleted in [columns] of the mapping"
        )
        (unknown, hint) = sorted(start('{"registration":"A1","deleted":true}\n').notes)
        assert "not read" in unknown
        assert "--deleted deleted" in hint

    def test_repeated_rows_are_those_that_stay(self, load, start):
        """The note on rows that repeat a key does not count rows to remove."""
        start(CARS)
        assert load("registration,deleted\nA1,true\nA2,true\nA9,true\nA3,\n").notes == []
        (note,) = load("registration,deleted\nA3,true\nA4,\nA4,\n").notes
        assert note.startswith("1 row has the registration of another row")


@ON_SQLITE
class TestOption:
    def test_it_is_for_native_files(self, cli):
        """Whoever names a column of another format would think that it was heeded."""
        file = cli.file("nyc.csv", "Plate,State,Summons Number,Issue Date,Amount Due", "A,NY,1,,5")
        told = cli.refusal("import", file, "--deleted", "State")
        assert "read as nyc-csv; --deleted is only for native files; a mapping names" in told
        mapping = cli.file("m.toml", 'kind = "vehicles"', "[columns]", 'registration = "P"')
        words = ("--map", mapping, "--register", "x", "--deleted", "D")
        assert "--deleted is only for native" in cli.refusal(
            "import", cli.file("a.csv", "P"), *words
        )

    def test_it_names_a_column_of_its_own(self, cli):
        """A member has values of its own: `insured` would remove every insured vehicle."""
        for name in ("", " ", "?!"):
            assert "must be the name of a column" in cli.misuse("import", "f", "--deleted", name)
        for name in ("insured", "valid_to", "VALIDTO"):
            assert "is a member with values" in cli.misuse("import", "f", "--deleted", name)

    def test_it_works_in_an_option_file(self, cli):
        """The drop directory loads with it, and so does `accept` a load that was held."""
        options, drop = cli.directory / "options", cli.directory / "drop" / "fleet"
        options.mkdir()
        drop.mkdir(parents=True)
        (options / "fleet").write_text("--deleted Gone")
        rows = [f"AB{n:03},FORD" for n in range(50)]
        for text, status in (
            ("\n".join(["registration,make,Gone", *(f"{row},0" for row in rows), ""]), 0),
            ("\n".join(["registration,Gone", *(f"AB{n:03},1" for n in range(20)), ""]), 1),
        ):
            (drop / "a.csv").write_text(text)
            os.utime(drop / "a.csv", (clock.now() - 3_600,) * 2)
            words = ("import", "--drop", drop.parent, "--options", options)
            assert cli.run(*words).status == status
        assert cli.json("imports", "list")[0]["status"] == "held"
        assert cli.json("imports", "accept", "2")["held"] == 30


def test_the_formats_without_it_have_no_such_column():
    """By default no column removes rows."""
    assert all(getattr(each, "deleted", None) is None for each in FORMATS.values())
