"""Every attempt to load is in the history; a failure reports as much as a success (D69)."""

import json
import os
import zipfile
from typing import Any

import pytest

from app.alerts.loads import freshness
from app.config import Config
from app.registers.generations import locked
from app.registers.space import Space
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_POSTGRES, ON_SQLITE

HEADER = "registration,make"
GOOD = (HEADER, "AB12CDE,FORD")
HALF_BAD = (HEADER, *(f"{plate},FORD" for n in range(8) for plate in (f"AB1{n}CDE", "")))
COUNTS = ("rows", "loaded", "changed", "rejected", "skipped")


def failed(cli, *words: object) -> dict[str, Any]:
    """Run a command that must fail, with `--json`; return the document that it prints."""
    ended = cli.run(*words, "--json")
    assert ended.status == 1
    document = json.loads(ended.stdout)
    assert document["status"] == "failed"
    # The first line on stderr, for people, has the same reason.
    assert ended.stderr.splitlines()[0].startswith(document["reason"])
    return document


UNREADABLE = {
    "empty": (b"", "The file is empty."),
    "utf-16": ("registration\nA1\n".encode("utf-16"), "The file is UTF-16; save it as UTF-8."),
    "html": (b"<!DOCTYPE html><html><body>503</body></html>\n", "The file is HTML"),
    "unknown": (b"a;b\n1;2\n", "The file fits no format."),
    "bad zip": (b"PK\x03\x04 and no more", "The file is damaged"),
    "bad gzip": (b"\x1f\x8b\x08 and no more", "The file is damaged"),
    "xz": (b"\xfd7zXZ\x00 and more", "The file is compressed with xz"),
    "missing": (None, "No such file or directory"),
}


@ON_SQLITE
@pytest.mark.parametrize(("content", "told"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_is_not_recognised_leaves_a_line(cli, content, told):
    """The line has name, size and reason, but no register."""
    path = cli.directory / "some.csv"
    if content is not None:
        path.write_bytes(content)
    assert cli.run("import", path, "--dry-run").status == 1
    assert cli.json("imports", "list") == []
    document = failed(cli, "import", path)
    assert told in document["reason"]
    assert document | {"reason": ""} == {"status": "failed", "reason": "", "load": 1, "reasons": []}
    (line,) = cli.json("imports", "list")
    assert (line["status"], line["reason"]) == ("failed", document["reason"])
    assert line["files"] == ["some.csv"]
    assert line["sizes"] == [None if content is None else len(content)]
    assert [line[name] for name in ("register", "kind", "format")] == [None, None, None]
    assert line["finished_at"] is not None


def test_a_named_register_gets_the_line(cli):
    """A register that the operator names gets the line, even if the file does not fit it."""
    path = cli.file("some.csv", "<html>")
    cli.refusal("import", path, "--register", "fleet", "--kind", "fines", "--mode", "replace")
    cli.refusal("import", path, "--format", "rdw-csv")
    lines = cli.json("imports", "list")
    assert [[each[name] for name in ("register", "kind", "format", "mode")] for each in lines] == [
        ["rdw", None, "rdw-csv", "merge"],
        ["fleet", "fines", None, "replace"],
    ]
    (line,) = cli.json("imports", "list", "--register", "fleet")
    assert line["id"] == 1


def test_a_load_that_is_refused_before_it_begins_leaves_a_line(cli, monkeypatch):
    """A busy register, too many registers, too little space and a wrong mapping leave a line."""
    engine = open_engine(cli.database_url)
    with locked(engine, "native"):
        document = failed(cli, "import", cli.file("a.csv", *GOOD))
    close_quietly(engine)
    assert (document["load"], document["reason"]) == (
        1,
        "another load of the register native is running; try again when it has ended",
    )
    for number in range(8):
        cli.json("import", cli.file("a.csv", *GOOD), "--register", f"r{number}")
    assert "there are 8 registers" in failed(cli, "import", cli.file("a.csv", *GOOD))["reason"]
    with monkeypatch.context() as patched:
        patched.setattr(Space, "require", lambda *_: open("/nonexistent"))  # noqa: SIM115
        document = failed(cli, "import", cli.file("a.csv", *GOOD), "--register", "r1")
    assert (document["load"], "/nonexistent" in document["reason"]) == (11, True)
    mapping = cli.file("map.toml", "kind = 3")
    document = failed(cli, "import", "a.csv", "--map", mapping, "--register", "r2")
    assert document["load"] == 12
    lines = cli.json("imports", "list", "--failed")
    assert [(each["id"], each["register"]) for each in lines] == [
        (12, "r2"),
        (11, "r1"),
        (10, "native"),
        (1, "native"),
    ]
    tried = failed(cli, "import", "a.csv", "--map", mapping, "--register", "r2", "--dry-run")
    assert tried == document | {"load": None}
    assert len(cli.json("imports", "list", "--failed")) == 4


@ON_SQLITE
def test_a_mistake_in_the_options_is_told_although_nothing_can_be_noted(cli):
    """The fault of the database would hide what the operator must correct."""
    cli.database.write_bytes(b"no database" * 100)
    refusal = cli.refusal("import", cli.file("cars.csv", *GOOD), "--map", "nowhere.toml")
    assert "nowhere.toml" in refusal


@ON_SQLITE
def test_a_drop_leaves_a_line_of_each_attempt(cli):
    """Each attempt leaves a line, also for files with a mistake in their option file."""
    drop, options = cli.directory / "drop", cli.directory / "options"
    for directory in (drop / "fleet", drop / "rdw", options):
        directory.mkdir(parents=True)
    (options / "fleet").write_text("--mode often")
    for path, content in (("fleet/a.csv", "A"), ("rdw/b.csv", "<html>"), ("c.csv", "")):
        (drop / path).write_text(content)
        os.utime(drop / path, (1_700_000_000, 1_700_000_000))
    ended = cli.run("import", "--drop", drop, "--options", options, "--json")
    assert ended.status == 1
    told = json.loads(ended.stdout)
    assert [each["status"] for each in told] == ["failed"] * 3
    assert [each["load"] for each in told] == [1, 2, 3]
    assert [(each["register"], each["files"]) for each in cli.json("imports", "list")] == [
        ("rdw", ["b.csv"]),
        ("fleet", ["a.csv"]),
        (None, ["c.csv"]),
    ]


@ON_SQLITE
def test_the_first_five_reasons_are_reported(cli):
    """The message, the JSON document and the history name file and line of five reasons."""
    path = cli.file("half.csv", *HALF_BAD)
    expected = [
        {"file": str(path), "line": line, "reason": "no registration"} for line in range(3, 13, 2)
    ]
    document = failed(cli, "import", path)
    assert document["reasons"] == expected
    assert document["reason"].startswith("8 of 16 records were rejected, more than 1%; nothing was")
    shown = cli.refusal("import", path).splitlines()
    assert shown[1:6] == [f"{path}, line {line}: no registration" for line in range(3, 13, 2)]
    assert shown[6:] == [
        "and 3 more",
        "Correct them, or load the others with --max-rejects 50%.",
    ]
    for line in cli.json("imports", "list"):
        assert line["reasons"] == expected
        assert "\n" not in line["reason"]
    assert cli.json("import", path, "--max-rejects", "8")["reasons"] == expected


@ON_SQLITE
def test_reasons_never_quote_a_value(cli):
    """Only the rejects file quotes values: they could be registrations or names."""
    bad = ("registration,make,insured,year", "AB12CDE,FORD,ZZ99 SECRET,2012", "SECR/ET,,,")
    path = cli.file("bad.csv", *bad)
    ended = cli.run("import", path, "--json")
    assert [each["reason"] for each in json.loads(ended.stdout)["reasons"]] == [
        "insured: neither true nor false; [words.insured] of a mapping can translate it",
        "not a registration number",
    ]
    shown = cli.run("imports", "show", 1)
    assert "SECR" not in ended.stdout + ended.stderr + json.dumps(ended.log) + shown.stdout
    assert "ZZ99 SECRET" in (cli.directory / "rejects" / "native-1.csv").read_text()


@ON_SQLITE
def test_a_mapped_file_is_not_quoted(cli):
    """The rejects of a mapped file have only the faulty value, not the record (D25)."""
    mapping = cli.file(
        "map.toml",
        'kind = "vehicles"',
        'register = "leasing"',
        "[columns]",
        'registration = "Kennzeichen"',
        'insured = "HU"',
    )
    path = cli.file("cars.csv", "Kennzeichen;HU;Fahrer", "B-XY 123;perhaps;Erika", "A/1;;Max")
    ended = cli.run("import", path, "--map", mapping, "--json")
    text = (cli.directory / "rejects" / "leasing-1.csv").read_text()
    assert "[words.insured] of a mapping can translate it: 'perhaps'" in text
    told = ended.stdout + ended.stderr + cli.run("imports", "show", 1).stdout
    assert "insured: neither true nor false" in told
    assert not any(value in told for value in ("perhaps", "A/1", "XY 123"))
    assert not any(name in told + text for name in ("Erika", "Max"))


@ON_SQLITE
def test_a_hostile_name_stays_on_one_line(cli):
    """A hostile file name can neither look like several files nor control a terminal."""
    path = cli.directory / "a\nb\x1b[2J\u202egnp.csv"
    path.write_text("")
    ended = cli.run("import", path)
    assert ended.stderr.count("\n") == 1
    (line,) = cli.json("imports", "list")
    assert line["files"] == ["a\\nb\\x1b[2J\\u202egnp.csv"]
    for words in (("list",), ("show", 1)):
        told = cli.run("imports", *words).stdout
        assert all(each.isprintable() for each in told.splitlines())
    bad_name = bytes(cli.directory) + b"/\xff.csv"
    open(bad_name, "wb").close()
    assert cli.run("import", bad_name.decode(errors="surrogateescape")).status == 1
    assert cli.json("imports", "list")[0]["files"] == ["\\udcff.csv"]


@ON_SQLITE
def test_names_inside_a_zip_are_as_harmless(cli):
    """Hostile names inside a zip are made harmless, too."""
    path = cli.directory / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x\ny.csv", "<html>")
    assert cli.refusal("import", path).startswith(f"{path}: x\\ny.csv: The file is HTML")


class TestList:
    @pytest.fixture(autouse=True)
    def _loads(self, cli):
        for number in range(4):
            cli.run("import", cli.file("a.csv", HEADER if number % 2 else "<html>"))

    def test_the_latest_are_listed(self, cli):
        """`--limit` sets how many of the latest loads are listed."""
        assert [line["id"] for line in cli.json("imports", "list", "--limit", 3)] == [4, 3, 2]
        assert len(cli.run("imports", "list", "--limit", 3).stdout.splitlines()) == 6

    def test_failures_are_listed_alone(self, cli):
        """`--failed` lists only failures, and `--limit` counts only those."""
        lines = cli.json("imports", "list", "--failed", "--limit", 2)
        assert [line["id"] for line in lines] == [3, 1]

    def test_fifty_are_listed_by_default(self, cli):
        """The list has the latest 50 loads by default."""
        for _ in range(48):
            cli.run("import", cli.directory / "none.csv")
        assert len(cli.json("imports", "list")) == 50
        assert len(cli.json("imports", "list", "--limit", 100)) == 52

    @ON_SQLITE
    @pytest.mark.parametrize("limit", ["0", "-1", "x", "100001", ""])
    def test_other_limits_are_refused(self, cli, limit):
        """Only a number is accepted as a limit."""
        assert "from 1 to 100,000" in cli.misuse("imports", "list", f"--limit={limit}")


class TestShow:
    def test_everything_is_shown(self, cli):
        """`imports show` prints everything, also what the list leaves out."""
        path = cli.file("half.csv", *HALF_BAD[:-1], "X")
        path.write_text(path.read_text()[:-1].replace("\nX", "\n,KIA"))
        cli.json("import", path, "--max-rejects", "50%", "--allow-unterminated")
        shown = cli.json("imports", "show", 1)
        assert shown["rejects"] == str(cli.directory / "rejects" / "native-1.csv")
        assert (shown["accepted"], shown["is_terminated"]) == (["unterminated"], False)
        (note,) = shown["notes"]
        assert note.startswith(f"{path}: the last record looks complete, but has no line end")
        assert (shown["files"], shown["sizes"]) == (["half.csv"], [path.stat().st_size])
        assert (shown["held"], len(shown["reasons"])) == (8, 5)
        told = cli.run("imports", "show", 1).stdout
        assert f"half.csv ({path.stat().st_size} bytes)" in told
        width = len("rows_afterwards") + 2
        told_reasons = (
            f"{'reasons':{width}}{path}, line 3: no registration\n{' ' * width}{path}, line 5"
        )
        assert f"\n{told_reasons}" in told

    def test_an_unknown_load_is_refused(self, cli):
        """The refusal says how to list the loads."""
        assert 'there is no load 7; see "verifyd imports list"' in cli.refusal("imports", "show", 7)
        assert failed(cli, "imports", "show", 7)["reason"].startswith("there is no load 7")
        assert "must be the number of a load" in cli.misuse("imports", "show", "x")


@ON_SQLITE
@pytest.mark.parametrize(
    "words",
    [("imports", "drop", "nil"), ("keys", "revoke", "nosuchid"), ("accounts", "create", " ")],
)
def test_every_command_fails_in_json(cli, words):
    """A failing command also prints its reason as a document on stdout."""
    failed(cli, *words)


def test_a_failed_check_prints_one_document(cli, monkeypatch):
    """A failed check prints its own document only."""
    monkeypatch.setenv("VERIFYD_WORKERS", "none")
    assert json.loads(cli.run("check", "--json").stdout)["ok"] is False


class TestEmpty:
    """Loads that read no rows (D51)."""

    @pytest.fixture
    def loaded_at(self, cli, monkeypatch):
        """Load a row, then move the clock; `loaded_at()` returns when the register was loaded."""
        monkeypatch.setattr("app.clock.now", lambda: 1_900_000_000)
        cli.json("import", cli.file("a.csv", *GOOD))
        monkeypatch.setattr("app.clock.now", lambda: 1_900_086_400)

        def find() -> int:
            engine = open_engine(cli.database_url)
            (found,) = freshness(engine, Config.from_env())
            close_quietly(engine)
            return found.loaded_at

        return find

    @pytest.mark.parametrize("words", [(), ("--mode", "replace", "--allow-shrink")])
    def test_the_register_does_not_become_fresh(self, cli, loaded_at, words):
        """The load succeeds and notes why the register stays stale; a dry run says the same."""
        path = cli.file("empty.csv", HEADER)
        tried = cli.json("import", path, *words, "--dry-run")
        done = cli.json("import", path, *words)
        assert tried == done | {"load": None, "dry_run": True}
        note, *accepted = done["notes"]
        assert len(accepted) == (1 if words else 0)
        assert note.startswith("no row was read")
        assert "--empty-ok" in note
        assert cli.json("imports", "list")[0]["status"] == "done"
        assert loaded_at() == 1_900_000_000

    @ON_SQLITE
    @pytest.mark.parametrize("words", [(), ("--mode", "replace", "--allow-shrink")])
    def test_the_operator_can_allow_it(self, cli, loaded_at, words):
        """`--empty-ok` is for sources whose deltas may be empty."""
        notes = cli.json("import", cli.file("b.csv", HEADER), "--empty-ok", *words)["notes"]
        assert [note for note in notes if not note.startswith("accepted rows")] == []
        assert loaded_at() == 1_900_086_400
        assert "empty" in cli.json("imports", "list")[0]["accepted"]

    @ON_SQLITE
    def test_rejects_do_not_make_a_register_fresh(self, cli, loaded_at):
        """A load whose rows are all rejected does not make its register fresh."""
        path = cli.file("bad.csv", HEADER, ",FORD")
        assert len(cli.json("import", path, "--max-rejects", "100%")["notes"]) == 1
        assert loaded_at() == 1_900_000_000

    @ON_SQLITE
    def test_skipped_rows_make_a_register_fresh(self, cli, loaded_at):
        """Fines of other states count: they show that ours has none."""
        fines = ("Plate,State,Summons Number,Issue Date,Amount Due", "QQ1,NJ,1,01/02/2026,5.00")
        path = cli.file("fines.csv", *fines)
        assert cli.json("import", path, "--register", "native")["notes"] == []
        assert loaded_at() == 1_900_086_400

    def test_unchanged_rows_make_a_register_fresh(self, cli, loaded_at):
        """Unchanged rows count: they show that nothing has changed."""
        assert cli.json("import", cli.file("a.csv", *GOOD))["changed"] == 0
        assert loaded_at() == 1_900_086_400


@ON_SQLITE
def test_an_empty_file_is_loaded_if_the_operator_says_what_it_is(cli):
    """Some sources write a file without records on a day without changes."""
    nothing, array = cli.directory / "a.ndjson", cli.directory / "a.json"
    nothing.write_bytes(b"")
    array.write_text("[]")
    reason = failed(cli, "import", nothing, "--empty-ok")["reason"]
    assert "to load it with --empty-ok, add --format and --kind" in reason
    assert "name its --format and --kind" in failed(cli, "import", array, "--empty-ok")["reason"]
    told = ["--empty-ok", "--kind", "vehicles", "--format"]
    assert cli.json("import", nothing, *told, "native-ndjson")["loaded"] == 0
    assert cli.json("import", array, *told, "native-json")["loaded"] == 0
    refused = failed(cli, "import", nothing, *told[1:], "native-ndjson")
    assert "The file is empty." in refused["reason"]


@ON_SQLITE
def test_a_file_with_an_empty_name_is_a_file(cli):
    """A script can name an unset variable; the page of the load needs a size for each file."""
    failed(cli, "import", "")
    line = cli.json("imports", "show", 1)
    assert (line["files"], line["sizes"]) == ([""], [None])


@ON_POSTGRES
def test_a_reason_of_the_database_quotes_no_row(cli, world):
    """Postgres quotes refused rows; neither the history nor a message repeats them."""
    cli.json("import", cli.file("a.csv", *GOOD))
    check = "ALTER TABLE register_native.vehicle ADD CHECK (make <> 'SECRET')"
    world.engine.execute_sql(check)
    path = cli.file("b.csv", HEADER, "AB13CDE,SECRET", "AB14CDE,FORD")
    ended = cli.run("import", path, "--json")
    assert (ended.status, "violates check constraint" in ended.stdout) == (1, True)
    assert not any("SECRET" in text for text in (ended.stdout, ended.stderr))
    (line,) = cli.json("imports", "list", "--failed")
    assert "SECRET" not in line["reason"]


@ON_SQLITE
@pytest.mark.parametrize(
    ("mapping", "told"),
    [(None, "The file cannot be read: No such file"), ("kind = 3", "kind: must be one of")],
)
def test_a_mistake_before_the_file_is_told_by_check(cli, mapping, told):
    """`check` says why; it repeats no such reason of a file that was opened, which may quote it."""
    path = cli.directory / "m.toml"
    if mapping:
        path.write_text(mapping)
    cli.refusal("import", cli.file("a.csv", *GOOD), "--map", path)
    assert cli.json("imports", "show", 1)["notes"] == ["no file was opened"]
    (warning,) = cli.json("check")["warnings"]
    assert f"(load 1). Load 1 ended before a file was opened: {path}: {told}" in warning
    cli.refusal("import", cli.file("a.csv", "AB12CDE", "AB13CDE"))
    (warning,) = cli.json("check")["warnings"]
    assert warning.endswith('(loads 2, 1). "verifyd imports show 2" shows why.')
    cli.refusal("import", cli.file("a.csv", *GOOD), "--map", path)
    (warning,) = cli.json("check")["warnings"]
    assert f"(loads 3, 2, 1). Load 3 ended before a file was opened: {path}: {told}" in warning
    cli.json("import", cli.file("a.csv", *GOOD))
    assert cli.json("check")["warnings"] == []


@ON_SQLITE
@pytest.mark.parametrize("words", [("none.csv",), (".",), ("a.csv", "--map", "none.toml")])
def test_a_typing_error_that_somebody_saw_warns_nobody(cli, monkeypatch, words):
    """It is in the history; the same failure of an unattended command is a warning, too."""
    monkeypatch.chdir(cli.directory)
    cli.file("a.csv", *GOOD)
    command = ("import", *words, "--register", "fleet")
    with monkeypatch.context() as patched:
        patched.setattr("app.jobs.loads.is_attended", lambda: True)
        reason = cli.refusal(*command).strip()
        cli.refusal("import", *words)
    assert cli.json("check")["warnings"] == []
    _, line = cli.json("imports", "list", "--failed")
    assert (line["register"], line["reason"]) == ("fleet", reason)
    assert line["notes"] == ["no file was opened", "somebody saw that at a terminal"]
    cli.refusal(*command)
    (warning,) = cli.json("check")["warnings"]
    assert f"(load 3). Load 3 ended before a file was opened: {words[-1]}: The file" in warning


@ON_SQLITE
def test_a_file_that_somebody_saw_refused_is_a_warning(cli, monkeypatch):
    """Somebody brought a register's file and it was not loaded: the register is not up to date."""
    monkeypatch.setattr("app.jobs.loads.is_attended", lambda: True)
    cli.refusal("import", cli.file("a.csv", "AB12CDE", "AB13CDE"), "--register", "fleet")
    (warning,) = cli.json("check")["warnings"]
    assert "The last load of the register fleet failed" in warning
