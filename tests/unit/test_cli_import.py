"""`verifyd import`: load files into a register, all or nothing (D28)."""

import csv
import io
import json
from hashlib import sha256

import pytest

from tests.conftest import ON_SQLITE
from tests.rows import each_row

HEADER = "registration,make"
NINE_GOOD_ONE_BAD = (HEADER, *(f"AB{n}CDE,FORD" for n in range(10, 19)), ",NO PLATE")


def test_a_load_prints_its_counts(cli):
    """The document has the counts of records, rows, changes, rejects and skips of all files."""
    file = cli.file("vehicles.csv", HEADER, "AB12CDE,FORD", "AB13CDE,SEAT")
    result = cli.json("import", file)
    change = result.pop("change")
    assert (change["held"], change["added"], change["answers"]["known"]) == ([0, 2], 2, [2, 0])
    assert change["members"]["make"] == {"known": [0, 2], "values": [0, 2]}
    assert result == {
        "load": 1,
        "register": "native",
        "kind": "vehicles",
        "mode": "merge",
        "format": "native-csv",
        "dry_run": False,
        "rows": 2,
        "loaded": 2,
        "changed": 2,
        "rejected": 0,
        "skipped": 0,
        "held_before": 0,
        "held": 2,
        "checksum": sha256(file.read_bytes()).hexdigest(),
        "rejects": None,
        "reasons": [],
        "notes": [],
    }


def test_a_refused_load_says_what_it_would_have_changed(cli):
    """The same as its dry run, and as the history; nothing was changed."""
    rows = [f"AB{n}CDE,FORD" for n in range(40)]
    cli.json("import", cli.file("a.csv", HEADER, *rows))
    words = ("import", cli.file("b.csv", HEADER, *rows[:20]), "--mode", "replace")
    for more in ((), ("--dry-run",)):
        ended = cli.run(*words, *more)
        assert ended.status == 1
        assert ended.stderr.splitlines()[:2] == [
            "-20",
            "rows: 20, before 40: 0 added, 20 removed, 0 changed",
        ]
        assert json.loads(cli.run(*words, *more, "--json").stdout)["change"]["removed"] == 20
    assert [line["change"]["removed"] for line in cli.json("imports", "list", "--failed")] == [
        20,
        20,
    ]
    shown = cli.run("imports", "show", "2").stdout
    assert "rows: 20, before 40: 0 added, 20 removed, 0 changed" in shown


def test_several_files_are_one_load(cli):
    """The counts are over all files, and the history has one line."""
    files = [cli.file(f"{n}.csv", HEADER, f"AB1{n}CDE,FORD") for n in range(3)]
    assert cli.json("import", *files)["loaded"] == 3
    (line,) = cli.json("imports", "list")
    assert line["files"] == ["0.csv", "1.csv", "2.csv"]


def test_the_register_can_be_named(cli):
    """`--register` separates what different agencies say (D25)."""
    file = cli.file("vehicles.csv", HEADER, "AB12CDE,FORD")
    assert cli.json("import", file, "--register", "fleet")["register"] == "fleet"


@ON_SQLITE
@pytest.mark.parametrize("name", ["", "Fleet", "1fleet", "a-b", "../x", "x" * 31])
def test_a_register_is_named_by_a_plain_word(cli, name):
    """A register's name becomes part of a file's name, so other characters are a usage error."""
    told = cli.misuse("import", "x.csv", "--register", name)
    assert "1 to 30 of a-z, 0-9 and _, beginning with a letter" in told


@ON_SQLITE
@each_row("limit", ["x", "-1", "101%", "nan%", "1.5", "%", ""])
def test_a_reject_limit_is_a_number_or_a_percentage(cli, limit):
    """Any other limit is a usage error that says what is accepted."""
    told = cli.misuse("import", "x.csv", f"--max-rejects={limit}")
    assert "must be N or N%, from 0 to 100%" in told


@ON_SQLITE
@pytest.mark.parametrize(
    ("limit", "status"), [("1", 0), ("0", 1), ("10%", 0), ("9.9%", 1), ("0%", 1), ("100%", 0)]
)
def test_the_reject_limit_is_kept(cli, limit, status):
    """One reject among ten records is 10 %; above the limit the whole load is abandoned."""
    file = cli.file("vehicles.csv", *NINE_GOOD_ONE_BAD)
    assert cli.run("import", file, "--max-rejects", limit).status == status
    (line,) = cli.json("imports", "list")
    assert (line["status"], line["loaded"]) == (("done", 9) if status == 0 else ("failed", 0))


@ON_SQLITE
def test_one_in_a_hundred_may_be_rejected_by_default(cli):
    """The default limit is 1 %: 1 reject of 100 passes, 1 of 99 does not (D28)."""
    good = [f"AB{n}CDE,FORD" for n in range(100, 199)]
    file = cli.file("some.csv", HEADER, *good, ",NO PLATE")
    assert cli.json("import", file)["rejected"] == 1
    refusal = cli.refusal("import", cli.file("less.csv", HEADER, *good[1:], ",NO PLATE"))
    assert "1 of 99 records was rejected, more than 1%; nothing was loaded; see" in refusal


@ON_SQLITE
def test_rejects_go_to_the_named_file(cli):
    """`--rejects FILE` gets file, line, reason and record, and only the operator can read it."""
    file, rejects = cli.file("vehicles.csv", *NINE_GOOD_ONE_BAD), cli.directory / "out.csv"
    made = cli.json("import", file, "--rejects", rejects, "--max-rejects", "1")
    assert made["rejects"] == str(rejects)
    assert list(csv.reader(io.StringIO(rejects.read_text()))) == [
        ["file", "line", "reason", "record"],
        [str(file), "11", "no registration", ",NO PLATE"],
    ]
    assert rejects.stat().st_mode & 0o777 == 0o600


@ON_SQLITE
def test_a_dry_run_writes_rejects(cli):
    """A dry run writes rejects, so that the operator sees them before the load."""
    file, rejects = cli.file("vehicles.csv", *NINE_GOOD_ONE_BAD), cli.directory / "out.csv"
    refusal = cli.refusal("import", file, "--dry-run", "--rejects", rejects)
    assert (
        f"1 of 10 records was rejected, more than 1%; nothing was loaded; see {rejects}" in refusal
    )
    words = ("import", file, "--dry-run", "--max-rejects", "1")
    assert cli.json(*words, "--rejects", rejects)["rejects"] == str(rejects)
    assert "no registration" in rejects.read_text()
    assert cli.json(*words)["rejects"] is None
    assert cli.json("imports", "list") == []


@ON_SQLITE
def test_rejects_go_into_no_directory_that_is_missing(cli):
    """A missing directory may be mistyped: nothing is read, and the history has the reason."""
    rejects = cli.directory / "rejcets" / "out.csv"
    refusal = cli.refusal(
        "import", cli.file("a.csv", *NINE_GOOD_ONE_BAD), f"--rejects={rejects}", "--max-rejects=1"
    )
    assert f"--rejects: the directory {rejects.parent} does not exist" in refusal
    assert not rejects.parent.exists()
    folder = cli.directory
    refusal = cli.refusal("import", folder / "a.csv", f"--rejects={folder}", "--max-rejects=1")
    assert f"--rejects: {folder} is a directory; name a file" in refusal
    assert [each["status"] for each in cli.json("imports", "list")] == ["failed", "failed"]


@ON_SQLITE
def test_a_mistyped_register_leaves_no_lock(cli):
    """A failed load and a drop leave no lock file; only an existing register has one."""
    file = cli.file("a.csv", "registration,make", "AB12CDE,FORD")

    def locks() -> list[str]:
        return sorted(path.name for path in cli.directory.glob("*.lock"))

    assert "there is no register fleeet" in cli.refusal(
        "imports", "rollback", "--register", "fleeet"
    )
    assert cli.run("import", cli.file("b.csv", *NINE_GOOD_ONE_BAD), "--register=x").status == 1
    assert locks() == []
    assert cli.run("import", file, "--register", "fleet").status == 0
    assert locks() == ["verifyd.register_fleet.lock"]
    assert cli.run("imports", "drop", "fleet", "--yes").status == 0
    assert locks() == []


@ON_SQLITE
def test_rejects_go_into_the_data_directory_by_default(cli):
    """By default rejects go to `rejects/`, in a file named after register and load."""
    file = cli.file("vehicles.csv", *NINE_GOOD_ONE_BAD)
    made = cli.json("import", file, "--max-rejects", "100%")
    assert made["rejects"] == str(cli.directory / "rejects" / "native-1.csv")


@pytest.mark.parametrize("name", ["vehicles.csv", "verifyd.db"])
@ON_SQLITE
def test_rejects_never_replace_another_file(cli, name):
    """A mistyped `--rejects` must not overwrite the input or the database."""
    file = cli.file("vehicles.csv", *NINE_GOOD_ONE_BAD)
    held = file.read_bytes()
    refusal = cli.refusal("import", file, "--rejects", cli.directory / name, "--max-rejects", "9")
    assert "is not a rejects file; name another file" in refusal
    assert file.read_bytes() == held
    assert cli.run("accounts", "list").status == 0


@ON_SQLITE
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (None, "The file cannot be read: No such file or directory."),
        ((), "The file is empty."),
        (("name;colour", "x;y"), "The file fits no format. Its columns are 'name', 'colour'. "),
    ],
)
def test_a_file_of_no_use_is_refused_by_name(cli, lines, told):
    """The refusal names the file and its fault, and no register is made."""
    path = cli.directory / "some.csv" if lines is None else cli.file("some.csv", *lines)
    assert cli.refusal("import", path).startswith(f"{path}: {told}")
    assert list(cli.directory.glob("*register*.db*")) == []


@ON_SQLITE
def test_the_format_can_be_forced(cli):
    """`--format` refuses a file of another layout, and names what it looked for."""
    file = cli.file("vehicles.csv", HEADER, "AB12CDE,FORD")
    assert "The file is not rdw-csv: looked for" in cli.refusal(
        "import", file, "--format", "rdw-csv"
    )
    assert "not 'excel'" in cli.misuse("import", file, "--format", "excel")


@ON_SQLITE
def test_people_get_a_line_for_each_member(cli):
    """Without `--json` the counts are a table; a pipe gets no progress bar."""
    ended = cli.run("import", cli.file("vehicles.csv", HEADER, "AB12CDE,FORD"))
    assert (ended.status, ended.stderr) == (0, "")
    assert "loaded       1\n" in ended.stdout


FINES = (
    "Plate,State,Summons Number,Issue Date,Amount Due",
    "QQ1,NY,1,01/31/2026,5.00",
    "QQ1,NJ,2,01/31/2026,7.00",
)


@pytest.mark.parametrize(
    ("words", "loaded"), [((), 1), (("--state", "nj"), 1), (("--state", "99"), 0)]
)
def test_fines_of_one_state(cli, words, loaded):
    """New York's fines are read for one state, NY by default; other rows are skipped."""
    file = cli.file("fines.csv", *FINES)
    result = cli.json("import", file, *words)
    assert (result["format"], result["loaded"], result["skipped"]) == (
        "nyc-csv",
        loaded,
        2 - loaded,
    )


@ON_SQLITE
@pytest.mark.parametrize("state", ["CA", "NY"])
def test_a_state_of_other_files_is_refused(cli, state):
    """Only New York's fines have states: whoever names one would think that it was heeded."""
    file = cli.file("cars.csv", "registration,make", "AB12CDE,FORD")
    mapping = cli.file("map.toml", 'register = "own"', 'kind = "vehicles"', "[columns]")
    mapping.write_text(mapping.read_text() + 'registration = "registration"\nmake = "make"\n')
    for words, name in (((), "native-csv"), (("--map", mapping), "mapped")):
        told = cli.refusal("import", file, "--state", state, *words)
        assert told == (
            f"{file}: The file is read as {name}; --state is only for nyc-csv and nyc-json.\n"
        )
    assert cli.run("import", file).status == 0


@ON_SQLITE
def test_a_state_is_named(cli):
    """A blank state is refused, because it would skip every row."""
    assert "must be a state" in cli.misuse("import", "x.csv", "--state", " ")


@ON_SQLITE
def test_help_lists_the_native_columns(cli):
    """The help has the columns of each kind, and marks those that every row needs."""
    told = cli.run("import", "--help").stdout
    words = " ".join(told.split())
    assert "policies registration*, insurer, number*, validFrom*, validTo*, type, " in words
    assert "vehicles registration*, make, model, year, color, insured, motExpiry, " in words
    assert "fines registration*, reference*, issuedOn, amount, currency, settledOn" in words


@ON_SQLITE
def test_help_says_what_is_experimental(cli):
    """The help says that the MID layout was never confirmed."""
    assert "mid is experimental" in " ".join(cli.run("import", "--help").stdout.split())


@ON_SQLITE
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--drop", "x", "--mode", "replace"], "argument --drop: not allowed with mode"),
        (["--drop", "x", "--dry-run"], "argument --drop: not allowed with dry-run"),
        (["--drop", "x", "--register", "x"], "argument --drop: not allowed with register"),
        (["--drop", "x", "a.csv"], "argument --drop: not allowed with files"),
        (["--drop", ""], "argument --drop: must name a directory"),
        (
            ["--drop", "x", "--options", ""],
            "argument --options: must name a directory",
        ),
        (["--options", "x", "a.csv"], "argument --options: only allowed with argument --drop"),
        ([], "the following arguments are required: FILE"),
    ],
)
def test_files_are_named_or_dropped(cli, words, told, monkeypatch, tmp_path):
    """Import needs files or `--drop`; options of a single load are refused with `--drop`."""
    monkeypatch.chdir(tmp_path)
    assert told in cli.misuse("import", *words)


def insured(known: int) -> list[str]:
    """Return a file of 100 vehicles, some of which have an insurance flag."""
    rows = [f"AB{n:03}CD,{'true' if n < known else ''}" for n in range(100)]
    return ["registration,insured", *rows]


def test_a_loss_is_allowed_by_an_option_or_the_setting(cli, monkeypatch):
    """The refusal names the option; the setting sets how much may be lost."""
    cli.json("import", cli.file("a.csv", *insured(100)))
    refusal = cli.refusal("import", cli.file("b.csv", *insured(70)))
    assert "values: 30 of 100 rows would lose insured; insured: 30 plates" in refusal
    assert "--accept values --accept insured" in refusal
    options = ["--allow-loss", "insured", "--accept", "insured"]
    assert cli.json("import", cli.directory / "b.csv", *options)["changed"] == 30
    monkeypatch.setenv("VERIFYD_LOSS_MAX", "60")
    path = cli.file("c.csv", *insured(30))
    assert cli.json("import", path, "--accept", "insured")["changed"] == 40


@ON_SQLITE
def test_a_member_that_can_be_lost_is_named(cli):
    """A mistyped member would allow nothing, so it is refused."""
    assert "not 'insurance'; did you mean insurer?" in cli.misuse(
        "import", "x", "--allow-loss", "insurance"
    )


@ON_SQLITE
def test_columns_that_may_be_missing_are_named(cli):
    """The option is repeated for each column, quoted if a name has spaces."""
    header = "Kenteken,Merk,Handelsbenaming,Datum eerste toelating,Eerste kleur"
    file = cli.file("a.csv", header, "AB12CDE,FORD,FOCUS,20120315,BLAUW")
    assert "--allow-missing 'WAM verzekerd'" in cli.refusal("import", file)
    words = ("--allow-missing", "WAM verzekerd", "--allow-missing", "vervaldatum_apk")
    assert cli.json("import", file, *words)["loaded"] == 1


def test_members_without_a_column_are_blanked_on_request(cli):
    """A merge keeps members without a column by default."""
    cli.json("import", cli.file("a.csv", "registration,make,year", "AB12CDE,FORD,2012"))
    narrow = cli.file("b.csv", "registration,make", "AB12CDE,FORD")
    assert cli.json("import", narrow)["changed"] == 0
    assert cli.json("import", narrow, "--blank-missing")["changed"] == 1
