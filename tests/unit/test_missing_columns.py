"""Columns that a file must have, should have, or can lack."""

import csv
import io
import json
from collections import Counter
from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.formats import FORMATS
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.registers.history import list_loads
from app.registers.reading import reader
from app.storage.tables import Kind
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.unit.test_load import files, held

ROWS = 5_000
HEADER = (
    "Kenteken,Merk,Handelsbenaming,Datum eerste toelating,Eerste kleur,WAM verzekerd,"
    "Vervaldatum APK,Vervaldatum APK DT\n"
)
RENAMED = (
    HEADER.replace("Vervaldatum APK DT", "Keuring geldig tot DT")
    .replace("Vervaldatum APK", "Keuring geldig tot")
    .replace("WAM verzekerd", "Verzekerd WAM")
)
INSURED, MOT_EXPIRY = 5, 6


def rdw(header: str = HEADER, rows: int = ROWS) -> str:
    """Return a file of the RDW; all vehicles are insured and have an MOT."""
    return header + "".join(
        f"AB{n:05},FORD,FOCUS,20120315,BLAUW,{'Ja' if n % 2 else 'Nee'},2027{n % 12 + 1:02}15,\n"
        for n in range(rows)
    )


def as_json(text: str, without: str = "", first: int = 0) -> str:
    """Return the same as the API's JSON; from one row on, a member is left out."""
    records = [
        {name.lower().replace(" ", "_"): value for name, value in row.items() if value}
        for row in csv.DictReader(io.StringIO(text))
    ]
    for record in records[first:]:
        record.pop(without, None)
    return json.dumps(records)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Make pieces so small that child processes read every file of lines."""
    monkeypatch.setattr(reader, "PIECE_BYTES", 64 * 1024)


def known(world) -> Counter[str]:
    """Return how many vehicles have an insurance flag and an MOT date."""
    rows = held(world, register="rdw")
    return Counter(
        insured=sum(row[INSURED] is not None for row in rows),
        mot=sum(row[MOT_EXPIRY] is not None for row in rows),
    )


@ON_SQLITE
class TestRenamed:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_renamed_columns_do_not_wipe_a_register(self, world, mode):
        """The load is refused with the names of all missing columns, and known values stay."""
        world.load_files(*files(world, a=rdw()), mode=mode)
        with pytest.raises(OperatorError) as refusal:
            world.load_files(*files(world, b=rdw(RENAMED)), mode=mode)
        assert str(refusal.value).startswith(f"{world.directory}/b.csv: The header has no column ")
        assert "WAM verzekerd (is it now Verzekerd WAM?)" in str(refusal.value)
        assert (
            "if that is right, repeat the load with --allow-missing 'WAM verzekerd' "
            "--allow-missing 'Vervaldatum APK'" in str(refusal.value)
        )
        assert known(world) == {"insured": ROWS, "mot": ROWS}
        assert list_loads(world.engine)[0].reason == str(refusal.value)

    def test_a_dry_run_refuses_it_as_well(self, world):
        """A dry run prints the same refusal, and leaves no line in the history."""
        path = files(world, b=rdw(RENAMED, 200))
        reasons = []
        for dry_run in (True, False):
            with pytest.raises(OperatorError) as refusal:
                world.load_files(*path, dry_run=dry_run)
            reasons.append(str(refusal.value))
        assert reasons[0] == reasons[1]
        assert len(list_loads(world.engine)) == 1

    @pytest.mark.parametrize(
        "allowed", [["WAM verzekerd", "Vervaldatum APK"], ["wam_verzekerd", "VERVALDATUM_APK"]]
    )
    def test_an_allowed_column_may_be_missing(self, world, allowed):
        """`--allow-missing` takes the label or the API's name, in any case."""
        path = files(world, b=rdw(RENAMED, 200))
        assert world.load_files(*path, allow_missing=allowed).loaded == 200
        with pytest.raises(OperatorError, match="no column WAM verzekerd"):
            world.load_files(*path, allow_missing=allowed[1:])

    def test_a_column_allowed_to_be_missing_may_not_be_lost(self, world):
        """`--allow-missing` does not allow the loss of the column's values."""
        world.load_files(*files(world, a=rdw(rows=200)))
        allowed = {"allow_missing": ["WAM verzekerd", "Vervaldatum APK"]}
        path = files(world, b=rdw(RENAMED, 200))
        with pytest.raises(
            OperatorError, match="would lose insured, 200 of 200 rows would lose motExpiry"
        ):
            world.load_files(*path, **allowed)
        allowed["accept"] = ["insured", "mot"]
        world.load_files(*path, **allowed, allow_loss=["insured", "motExpiry"])
        assert known(world) == {"insured": 0, "mot": 0}

    @pytest.mark.parametrize(
        ("header", "told"),
        [
            (
                "Plate,Nr,From,To,Company",
                "The header has no column Contract, Insurer; every row needs Contract",
            ),
            (
                "Plate,Contract,From,To,Company",
                "The header has no column Insurer; if that is right, repeat the load with "
                "--allow-missing Insurer",
            ),
            (
                "plate,contracts,From,To,Insuror",
                "The header has no column Contract (did you mean contracts?), Insurer (did you "
                "mean Insuror?); correct the mapping",
            ),
            (
                "Plate,Contracts,From,To,Company",
                "The header has no column Contract (did you mean Contracts?), Insurer; every row "
                "needs Contract",
            ),
            (
                "Make,Plate,Model",
                "The mapping reads 5 columns; the file has only Plate of them. Is it the "
                "mapping of another file? The file lacks Contract, From, To, Insurer.",
            ),
            (
                "A,B",
                "The mapping reads 5 columns; the file has none of them. Is it the mapping of "
                "another file? The file lacks Plate, Contract, From, To, Insurer.",
            ),
            (
                "Plate;Contract;From;To;Insurer",
                "With this delimiter the header has only one column. The delimiter seems to be "
                '";": write delimiter = ";" into the mapping.',
            ),
        ],
    )
    def test_a_mapping_that_does_not_fit_a_file_is_told_why(self, world, tmp_path, header, told):
        """A typing error, another file and a wrong delimiter have messages of their own."""
        path = tmp_path / "mapping.toml"
        path.write_text(
            'kind = "policies"\nregister = "fleet"\ndelimiter = ","\n[columns]\n'
            'registration = "Plate"\nnumber = "Contract"\nvalidFrom = "From"\nvalidTo = "To"\n'
            'insurer = "Insurer"\n'
        )
        formats = {"mapped": MappedCsv(read_mapping(path))}
        paths = files(world, a=f"{header}\n")
        with pytest.raises(OperatorError) as refusal:
            world.load_files(*paths, formats=formats, format="mapped")
        assert str(refusal.value) == f"{paths[0]}: {told}"

    def test_a_key_column_may_not_be_missing(self, world):
        """`--allow-missing` does not make a key column optional."""
        with pytest.raises(OperatorError, match="no column Kenteken; every row needs Kenteken"):
            world.load_files(
                *files(world, a=rdw(HEADER.replace("Kenteken", "Plate"), 3)),
                format="rdw-csv",
                kind=Kind.VEHICLES,
                allow_missing=["Kenteken"],
            )

    def test_each_file_of_a_load_needs_its_columns(self, world):
        """Each header is checked: one of three without a column would blank a third of the rows."""
        paths = files(world, a=rdw(rows=9), b=rdw(RENAMED, 9), c=rdw(rows=9))
        with pytest.raises(OperatorError, match=r"b\.csv: The header has no column"):
            world.load_files(*paths)

    def test_a_column_that_stands_in_for_another_need_not_be_there(self, world):
        """The DT column is read where the other one is empty, and is optional."""
        narrow = rdw(rows=9).replace(",Vervaldatum APK DT", "").replace(",\n", "\n")
        assert world.load_files(*files(world, a=narrow)).loaded == 9


class TestJson:
    @ON_SQLITE
    def test_a_member_is_there_if_any_row_has_it(self, world):
        """Members without a value are left out, so a single row in any page is enough."""
        pages = [as_json(rdw(rows=120), "wam_verzekerd", first) for first in (0, 119)]
        result = world.load_files(*files(world, a=pages[0], b=pages[1]))
        assert (result.loaded, result.notes) == (240, [])

    @pytest.mark.parametrize("pages", [1, 2])
    def test_a_member_that_no_row_has_is_missing(self, world, pages):
        """The whole load is read before a missing member is reported."""
        page = as_json(rdw(rows=120), "wam_verzekerd")
        paths = files(world, **{f"p{n}": page for n in range(pages)})
        with pytest.raises(OperatorError, match="no row has the member WAM verzekerd; if"):
            world.load_files(*paths)
        assert world.load_files(*paths, allow_missing=["wam_verzekerd"]).loaded == 120 * pages

    @ON_SQLITE
    @pytest.mark.parametrize(("rows", "is_refused"), [(99, False), (100, True)])
    def test_a_few_rows_may_lack_an_optional_member(self, world, rows, is_refused):
        """A page of trailers, which have no MOT, does not mean that a member was renamed."""
        path = files(world, a=as_json(rdw(rows=rows), "vervaldatum_apk"))
        if is_refused:
            with pytest.raises(OperatorError, match="no row has the member Vervaldatum APK"):
                world.load_files(*path)
        else:
            assert world.load_files(*path).loaded == rows

    @ON_SQLITE
    def test_fines_without_any_amount_are_not_all_written_off(self, world):
        """A query that leaves the amounts out would settle all fines, so it is refused."""
        fine = {"plate": "A1", "state": "NY", "issue_date": "01/02/2026"}
        fines = [fine | {"summons_number": f"{n}"} for n in range(3)]
        path = files(world, a=json.dumps(fines))
        with pytest.raises(OperatorError, match="no row has the member Amount Due; if"):
            world.load_files(*path)
        assert world.load_files(*path, allow_missing=["Amount Due"]).loaded == 3

    @ON_SQLITE
    def test_deletions_lack_nothing(self, world):
        """A delta of deletions needs only plates."""
        gone = '{"registration": "QQ%d", "modification": "DELETED"}\n'
        lines = "".join(gone % n for n in range(120))
        assert world.load_files(*files(world, a=lines)).skipped == 120

    @ON_SQLITE
    @pytest.mark.parametrize("renamed", ["tests", "MotTests"])
    def test_vehicles_of_the_dvsa_have_their_members(self, world, renamed):
        """A renamed motTests would remove all MOT dates, so it is refused."""
        car = '{"registration": "QQ%d", "make": "A", "model": "B", "primaryColour": "C", '
        car += '"manufactureDate": "2020-01-01", "%s": [], "modification": "UPDATED"}\n'
        lines = ["".join(car % (n, name) for n in range(120)) for name in ("motTests", renamed)]
        assert world.load_files(*files(world, a=lines[0])).loaded == 120
        with pytest.raises(
            OperatorError, match=rf"no row has the member motTests \(is it now {renamed}"
        ):
            world.load_files(*files(world, a=lines[1]))


@ON_SQLITE
class TestNarrow:
    @pytest.mark.parametrize(
        "text",
        [
            "registration\nAB12CDE\n",
            "registration,number,validFrom,validTo\nAB12CDE,P-1,2026-01-01,2026-12-31\n",
            "registration,reference,amount\nAB12CDE,F-1,65\n",
            "".join(f'{{"registration": "AB{n}CDE"}}\n' for n in range(120)),
        ],
    )
    def test_native_files_need_their_keys_only(self, world, text):
        """Narrow native files are common, so only their keys are required."""
        result = world.load_files(*files(world, a=text))
        assert (result.loaded > 0, result.notes) == (True, [])

    def test_a_column_that_a_mapping_names_is_expected(self, world):
        """The mapping says which columns a file has; a renamed one would blank a member."""
        path = world.directory / "map.toml"
        path.write_text('kind = "vehicles"\n[columns]\nregistration = "Plate"\nmotExpiry = "MOT"\n')
        mapped = MappedCsv(read_mapping(path))
        options = {"formats": {mapped.name: mapped}, "format": mapped.name, "register": "fleet"}
        file = files(world, a="Plate,MOT date\nAB12CDE,2027-01-01\n")
        with pytest.raises(OperatorError, match="repeat the load with --allow-missing MOT"):
            world.load_files(*file, **options)
        assert world.load_files(*file, **options, allow_missing=["MOT"]).loaded == 1

    def test_a_missing_key_cannot_be_allowed(self, world):
        """Rows without a key cannot be told apart, so a missing key cannot be allowed."""
        path = files(world, a="registration,number,validFrom\nAB12CDE,P-1,2026-01-01\n")
        with pytest.raises(OperatorError, match="The header has no column validTo"):
            world.load_files(*path, allow_missing=["validTo"])


@ON_SQLITE
class TestUnknown:
    def test_unknown_columns_are_noted_once_for_all_files(self, world):
        """One note for all files lists unknown columns, which can be mistyped or new."""
        text = "registration,colour,make,Fleet no.\nAB12CDE,BLUE,FORD,7\n"
        result = world.load_files(*files(world, a=text, b=text))
        note = "2 unknown columns are not read: 'colour', 'Fleet no.'"
        assert result.notes == [f"{world.directory}/a.csv: {note}"]

    def test_ten_of_many_are_named(self, world):
        """The note names ten columns, and says how many there are."""
        text = "registration," + ",".join(f"c{n}" for n in range(14)) + "\nA1" + "," * 14 + "\n"
        (note,) = world.load_files(*files(world, a=text)).notes
        assert note.endswith(
            "14 unknown columns are not read: "
            + ", ".join(f"'c{n}'" for n in range(10))
            + " and 4 more"
        )

    def test_members_of_json_are_noted_as_well(self, world):
        """A member that only one row has is noted, too."""
        lines = '{"registration": "A1"}\n{"registration": "A2", "mot_expires": "2027-01-01"}\n'
        (note,) = world.load_files(*files(world, a=lines)).notes
        assert note.endswith("1 unknown column is not read: 'mot_expires'")

    def test_hostile_names_are_bounded(self, world):
        """The note has a maximum length, whatever the names."""
        row: dict[str, Any] = {"registration": "A1"}
        lines = "".join(
            json.dumps(row | {f"{n}" + "x" * 500: 1 for n in range(at, at + 500)}) + "\n"
            for at in range(0, 5_000, 500)
        )
        note, _ = world.load_files(*files(world, a=lines)).notes
        assert len(note) < 1_000

    def test_columns_that_a_mapping_leaves_out_are_not_noted(self, world):
        """Columns that the mapping does not mention are not noted."""
        path = world.directory / "map.toml"
        path.write_text(
            'kind = "vehicles"\nregister = "fleet"\n'
            '[columns]\nregistration = "Plate"\n[constants]\nmake = "FORD"\n'
        )
        mapped = MappedCsv(read_mapping(path))
        result = world.load_files(
            *files(world, a="Plate,Driver\nAB12CDE,Erika\n"),
            formats={mapped.name: mapped},
            format=mapped.name,
        )
        assert (result.loaded, result.notes) == (1, [])


@each_row("name", sorted(FORMATS))
def test_every_format_declares_its_columns(name):
    """Every column that a format reads is declared, and none twice."""
    for kind in Kind:
        declared = FORMATS[name].known_columns(kind)
        names = [name for column in declared.columns for name in column.names]
        assert len(set(names)) == len(names)
        assert declared.ignored is None or declared.ignored.isdisjoint(names)
