"""Searching and exporting the trail: everything that matches, and nothing else (D117, D118)."""

import csv
import hashlib
import io
import os
from datetime import date

import msgspec
import pytest

from app.audit import index
from app.audit.export import COLUMNS, csv_lines, csv_of, records_in
from app.audit.index import (
    Entries,
    IndexFile,
    IndexReader,
    complete_index,
    drop_from_index,
    key_of,
    list_index_files,
    write_index,
)
from app.audit.record import Criteria, Plate, Record, find_record, invalid_plate, row_of
from app.audit.seal import seal
from app.audit.search import Query, TimeSpan, first_moment, last_moment, plan, search, time_before
from app.audit.segments import lines_beginning_in, list_segments
from app.audit.view import view_of
from tests.rows import each_row
from tests.unit.audit_trails import Clock, look_up, opened

PERIOD = {"first_day": "2026-12-04", "last_day": "2026-12-07"}


class FormerPlate(msgspec.Struct, omit_defaults=True):
    """A plate as 1.0.0 reads it."""

    plate: str
    found: bool | None = None
    insured: bool | None = None


class FormerRecord(msgspec.Struct, omit_defaults=True):
    """A record as 1.0.0 reads it."""

    time: str
    operation: str
    plates: list[FormerPlate] = []


@pytest.fixture
def hours(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def directory(tmp_path, hours):
    """A trail of four hours, the last one not sealed. Each hour is larger than a block."""
    path = tmp_path / "audit"
    with opened(path) as trail:
        for hour in range(4):
            for number in range(400):
                trail.append(
                    look_up(f"H{hour}N{number}", user=f"user{number % 7}", reference="R" * 60)
                )
            bulk = [Plate(f"B{n}", found=False) for n in range(4_000)]
            trail.append(look_up(operation="bulk_insurance", plates=bulk, account="fleet"))
            trail.append(look_up("EVERY"))
            hours.pass_hours(1)
        hours.pass_hours(-1)
    seal(path, current=False)
    return path


def found(directory, kind, value, **options):
    """Return the records that a search finds, which are the same with and without the index."""
    query = Query(kind, value, **options)
    records = list(search(view_of(directory), query))
    assert records == list(search(view_of(directory), query, scan=True))
    for scan in (False, True):
        newest_first = search(view_of(directory), query, scan=scan, newest_first=True)
        assert records == list(newest_first)[::-1]
    return records


class TestSearch:
    @pytest.mark.parametrize("plate", ["H0N0", "H1N399", "H2N200", "H3N17"])
    def test_a_plate_is_found(self, directory, plate):
        """In sealed segments and in the one that is open."""
        (record,) = found(directory, "plate", plate)
        assert [each.plate for each in record.plates] == [plate]

    def test_a_plate_of_every_hour_is_found_in_each(self, directory):
        """Records come in the order of the trail."""
        times = [record.time for record in found(directory, "plate", "EVERY")]
        assert len(times) == 4
        assert times == sorted(times)

    @pytest.mark.parametrize("plate", ["B0", "B1234", "B3999"])
    def test_of_a_bulk_only_the_plate_is_shown(self, directory, plate):
        """The other plates are other people's vehicles."""
        records = found(directory, "plate", plate)
        assert [len(record.plates) for record in records] == [1, 1, 1, 1]
        assert {record.account for record in records} == {"fleet"}

    def test_an_account_and_a_user_are_found(self, directory):
        """Their records are shown whole."""
        assert len(found(directory, "account", "acme")) == 4 * 401
        assert [len(r.plates) for r in found(directory, "account", "fleet")] == [4_000] * 4
        assert len(found(directory, "user", "user3")) == 4 * 57

    @pytest.mark.parametrize("value", ["H0N", "acme", "R" * 60, "", "\udcff"])
    def test_only_whole_values_of_the_kind_match(self, directory, value):
        """A part of a plate, or an account's name, is no plate."""
        assert found(directory, "plate", value) == []

    def test_a_period_is_respected(self, directory, hours):
        """Both ends are included."""
        second = found(directory, "plate", "EVERY")[1].time
        assert len(found(directory, "plate", "EVERY", period=TimeSpan(second, second))) == 1
        assert len(found(directory, "plate", "EVERY", period=TimeSpan(since=second))) == 3
        assert len(found(directory, "plate", "EVERY", period=TimeSpan(until=second))) == 2

    def test_searches_for_a_plate_are_found_too(self, directory):
        """Whoever asks who looked at a plate also learns of those who searched the trail."""
        with opened(directory) as trail:
            trail.append(
                Record(time="2026-11-22T15:00:00Z", operation="search", criteria=Criteria("H0N0"))
            )
        seal(directory, current=True)
        assert [r.operation for r in found(directory, "plate", "H0N0")] == ["insurance", "search"]

    def test_a_plate_that_was_only_shown_is_found(self, directory):
        """It differs from those that were asked for (D175)."""
        shown = [Plate(name, found=True, suggested=True) for name in ("H01", "HO1")]
        with opened(directory) as trail:
            trail.append(look_up(plates=[Plate("HQ1", found=False), *shown]))
        seal(directory, current=True)
        (record,) = found(directory, "plate", "HO1")
        assert record.plates == [shown[1]]
        assert row_of(record)[-2:] == ("HO1", "suggested")
        (whole,) = (r for r in found(directory, "account", "acme") if len(r.plates) == 3)
        assert row_of(whole)[-2:] == ("HQ1", "not found, 2 suggested")

    def test_a_text_that_is_no_registration_is_found(self, directory):
        """It is recorded by its beginning."""
        plate = invalid_plate('"\\ü€' * 20)
        with opened(directory) as trail:
            trail.append(look_up(plates=[plate]))
        seal(directory, current=True)
        assert len(found(directory, "plate", plate.plate)) == 1


class TestIndex:
    def test_only_blocks_with_the_plate_are_read(self, directory):
        """Without a match a sealed segment is not read at all."""
        parts = plan(view_of(directory), Query("plate", "H1N399"), scan=False)
        assert [(part.stretch.segment.number, part.blocks is None) for part in parts] == [
            (2, False),
            (4, True),
        ]
        assert len(parts[0].blocks or []) == 1

    @pytest.mark.parametrize("damage", ["remove", "shorten", "overwrite"])
    def test_a_damaged_index_is_not_trusted(self, directory, damage):
        """The segments are read instead, and the next run builds the index again."""
        path = directory / "index" / "00000002-00000002.0"
        whole = path.read_bytes()
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes(whole[:-3] if damage == "shorten" else b"x" * len(whole))
        assert len(found(directory, "plate", "H1N7")) == 1
        seal(directory, current=False)
        assert path.read_bytes() == whole

    def test_files_are_merged(self, tmp_path, monkeypatch, hours):
        """Many segments need few files; what was merged is removed, and nothing is lost."""
        monkeypatch.setattr(index, "_FAN_IN", 3)
        path = tmp_path / "many"
        with opened(path) as trail:
            for hour in range(14):
                trail.append(look_up(f"H{hour}"))
                trail.append(look_up("EVERY"))
                seal(path, current=True)
        assert [file.name for file in list_index_files(path)] == [
            "00000001-00000009.2",
            "00000010-00000012.1",
            "00000013-00000013.0",
            "00000014-00000014.0",
        ]
        assert len(list((path / "index").iterdir())) == 4
        assert len(found(path, "plate", "EVERY")) == 14
        assert all(len(found(path, "plate", f"H{hour}")) == 1 for hour in range(14))

    def test_a_merge_that_ended_early_is_completed(self, tmp_path, monkeypatch, hours):
        """Files that another one covers are ignored and removed."""
        monkeypatch.setattr(index, "_FAN_IN", 3)
        path = tmp_path / "many"
        with opened(path) as trail:
            for hour in range(2):
                trail.append(look_up(f"H{hour}"))
                seal(path, current=True)
            kept = {p.name: p.read_bytes() for p in (path / "index").iterdir()}
            trail.append(look_up("H2"))
            seal(path, current=True)
        for name, data in kept.items():
            (path / "index" / name).write_bytes(data)
        (path / "index" / "00000004-00000004.0.new").write_bytes(b"half")
        assert len(found(path, "plate", "H1")) == 1
        seal(path, current=True)
        assert [p.name for p in (path / "index").iterdir()] == ["00000001-00000003.1"]

    def test_removed_segments_leave_a_merged_file(self, tmp_path, monkeypatch, hours):
        """The entries of the others stay."""
        monkeypatch.setattr(index, "_FAN_IN", 3)
        path = tmp_path / "many"
        with opened(path) as trail:
            for hour in range(3):
                trail.append(look_up(f"H{hour}"))
                seal(path, current=True)
        drop_from_index(path, {1})
        (file,) = list_index_files(path)
        assert file == IndexFile(2, 3, 1)
        with IndexReader(file.path_in(path)) as reader:
            assert list(reader.find(key_of("plate", "H0"))) == []
            assert list(reader.find(key_of("plate", "H1"))) == [(2, 0)]

    def test_entries_are_sorted_in_bounded_memory(self, tmp_path, monkeypatch):
        """More entries than memory may hold are sorted in files without a name."""
        monkeypatch.setattr(index, "_RUN_ENTRIES", 100)
        directory = tmp_path / "index"
        directory.mkdir()
        entries = Entries(directory)
        wanted = [os.urandom(16) for _ in range(1_050)]
        for start in range(0, len(wanted), 7):
            entries.add(wanted[start : start + 7])
        assert entries.digest() == hashlib.sha256(b"".join(sorted(wanted))).hexdigest()
        file = IndexFile(1, 1, 0)
        write_index(tmp_path, file, entries.sorted())
        assert [*directory.iterdir()] == [file.path_in(tmp_path)]
        data = file.path_in(tmp_path).read_bytes()[16:]
        assert [data[at : at + 16] for at in range(0, len(data), 16)] == sorted(wanted)

    def test_the_index_is_private(self, directory):
        """A hash of a plate can be guessed."""
        assert (directory / "index").stat().st_mode & 0o777 == 0o700
        assert {p.stat().st_mode & 0o777 for p in (directory / "index").iterdir()} == {0o600}

    def test_a_whole_index_can_be_built_again(self, directory):
        """It is made of the segments alone."""
        before = {p.name: p.read_bytes() for p in (directory / "index").iterdir()}
        for path in (directory / "index").iterdir():
            path.unlink()
        complete_index(directory, list_segments(directory)[:3])
        assert {p.name: p.read_bytes() for p in (directory / "index").iterdir()} == before


@pytest.mark.parametrize("size", [1, 7, 10, 64])
def test_each_line_begins_in_one_block(tmp_path, size):
    """Blocks together have every line once, also lines that are longer than a block."""
    lines = [b"x" * n for n in (0, 3, 9, 10, 11, 40, 1, 0, 0, 5)]
    path = tmp_path / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"rest")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        whole = os.fstat(descriptor).st_size
        parts = [
            lines_beginning_in(descriptor, at, at + size) for at in range(0, whole + size, size)
        ]
        assert [line for part in parts for line in part] == lines
    finally:
        os.close(descriptor)


class TestPeriods:
    @pytest.mark.parametrize(
        ("text", "first", "last"),
        [
            ("2026-11-01", "2026-11-01T00:00:00.000000Z", "2026-11-01T23:59:59.999999Z"),
            ("2026-11-01T15:00Z", "2026-11-01T15:00:00.000000Z", "2026-11-01T15:00:00.000000Z"),
            ("2026-11-01T15:00:01+02:00", "2026-11-01T13:00:01.000000Z", None),
        ],
    )
    def test_days_and_times_are_understood(self, text, first, last):
        """A day is one of UTC, and whole."""
        assert first_moment(text) == first
        assert last_moment(text) == (last or first)

    @each_row(
        "text",
        [
            *("", "today", "2026-11", "2026-11-01T15:00", "20261101"),
            *("9999-12-31T23:59-05:00", "0001-01-01T00:00+05:00"),
        ],
    )
    def test_other_texts_are_refused(self, text):
        """A time needs its offset, and to be in the years 1 to 9999 in UTC, too."""
        with pytest.raises(ValueError, match=r"."):
            first_moment(text)

    @pytest.mark.parametrize(
        ("keep", "before"),
        [
            ("1d", "2026-03-30"),
            ("90d", "2025-12-31"),
            ("1m", "2026-02-28"),
            ("24m", "2024-03-31"),
            ("25m", "2024-02-29"),
            ("2y", "2024-03-31"),
            ("9999y", "0001-01-01"),
            ("99999d", "1752-06-16"),
        ],
    )
    def test_ages_are_those_of_the_calendar(self, keep, before):
        """A month ago is the same day, or the last one of a shorter month."""
        assert time_before(keep, "2026-03-31T12:00:00.000000Z") == f"{before}T00:00:00.000000Z"

    @pytest.mark.parametrize(
        ("today", "keep", "before"),
        [
            (date(2026, 3, 28), "1m", "2026-02-28"),
            (date(2026, 3, 29), "1m", "2026-02-28"),
            (date(2026, 3, 30), "1m", "2026-02-28"),
            (date(2024, 3, 29), "1m", "2024-02-29"),
            (date(2024, 3, 30), "1m", "2024-02-29"),
            (date(2024, 2, 29), "1y", "2023-02-28"),
            (date(2026, 1, 30), "1m", "2025-12-30"),
            (date(2026, 12, 31), "1m", "2026-11-30"),
        ],
    )
    def test_the_last_days_of_a_month_have_a_day_before(self, today, keep, before):
        """On the 29th and 30th, too, the month before may be shorter."""
        assert time_before(keep, f"{today}T00:00:00.000000Z") == f"{before}T00:00:00.000000Z"

    @each_row("keep", ["", "0d", "24", "24h", "1.5y", "-1m", "24 m"])
    def test_other_ages_are_refused(self, keep):
        """Nothing is removed because of a typing error."""
        with pytest.raises(ValueError, match="days, months or years"):
            time_before(keep, "2026-03-31")


@each_row(
    ("days", "answer"),
    [
        ({}, "insured"),
        ({"as_of": "2026-12-04"}, "insured on 2026-12-04"),
        (PERIOD, "insured in the period 2026-12-04 to 2026-12-07"),
    ],
)
def test_an_answer_names_the_days_that_it_is_about(days, answer):
    """Those that the request named; also if the plates are only counted."""
    assert row_of(look_up(**days)).answer == answer
    several = look_up(**days, plates=[Plate("A1", found=True), Plate("A2", found=False)])
    assert row_of(several).answer == answer.removeprefix("insured").lstrip()


def test_the_former_release_reads_what_is_not_known_as_no():
    """It ignores the members that it does not know, and keeps the rest of the record (D198)."""
    plate = {"plate": "A1", "found": True, "insured": False}
    known = {"time": "t", "operation": "insurance", "plates": [plate]}
    told = Plate("A1", found=True, insured=False, unknown=("insured",))
    line = msgspec.json.encode(Record(time="t", operation="insurance", rule=2, plates=[told]))
    read = msgspec.json.decode(line, type=FormerRecord)
    assert msgspec.to_builtins(read) == known
    former = find_record(msgspec.json.encode(read))
    assert former is not None
    assert msgspec.to_builtins(former) == known
    assert row_of(former).answer == "not insured"


class TestExport:
    def test_a_csv_has_the_days_of_a_period(self):
        """A record of an earlier release, which has no period, is read all the same."""
        old = b'{"time":"t","operation":"insurance","as_of":"2026-12-04","plates":[{"plate":"A1"}]}'
        former = find_record(old)
        assert former is not None
        text = (csv_of([COLUMNS]) + csv_lines(former) + csv_lines(look_up(**PERIOD))).decode()
        rows = csv.DictReader(io.StringIO(text, newline=""))
        assert [(row["as_of"], row["first_day"], row["last_day"]) for row in rows] == [
            ("2026-12-04", "", ""),
            ("", "2026-12-04", "2026-12-07"),
        ]

    def test_what_is_not_known_has_the_last_columns(self):
        """The columns before are those of 1.0.0; a plate of the former rule has none (D198)."""
        told = [
            Plate("A1", found=True, insured=False, unknown=("insured", "insuranceValid")),
            Plate("A2", found=True, insured=False),
        ]
        assert COLUMNS[-3:] == ("upkeep", "rule", "unknown")
        rows = list(csv.reader(csv_lines(look_up(plates=told, rule=2)).decode().splitlines()))
        assert [row[-2:] for row in rows] == [["2", "insured;insuranceValid"], ["2", ""]]
        assert csv_lines(look_up()).endswith(b",,,\r\n")

    def test_lines_are_exported_as_they_were_recorded(self, directory):
        """The digest of a segment fits its export."""
        exported = b"".join(line + b"\n" for line, _ in records_in(view_of(directory), TimeSpan()))
        segments = list_segments(directory)
        assert exported == b"".join((directory / s.file_name).read_bytes() for s in segments)

    def test_a_csv_has_a_line_for_each_plate(self):
        """A record without plates has one, too. No cell is a formula, or controls a terminal."""
        record = look_up(
            plates=[
                Plate("A1", found=True, compliant=False),
                invalid_plate("\x1b[31m\u202e"),
                Plate("AI", found=True, suggested=True),
                Plate("W1", found=True, checks={"mot": False, "tax": True}, events=["a", "b"]),
            ],
            reference="=1+1",
            user='jane;=1+1,"x"',
            registers={"native": 3, "dvla": 17},
        )
        search = Record(time="t", operation="search", criteria=Criteria("A1"), unverified=True)
        text = (csv_of([COLUMNS]) + csv_lines(record) + csv_lines(search)).decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert tuple(rows[0]) == COLUMNS
        members = ("plate", "found", "compliant", "invalid", "suggested", "checks", "events")
        assert [tuple(row[name] for name in members) for row in rows] == [
            ("A1", "true", "false", "", "", "", ""),
            ("\\x1b[31m\\u202e", "", "", "true", "", "", ""),
            ("AI", "true", "", "", "true", "", ""),
            ("W1", "true", "", "", "", "mot=false;tax=true", "a;b"),
            ("", "", "", "", "", "", ""),
        ]
        assert rows[0]["reference"] == "'=1+1"
        assert rows[0]["user"] == 'jane;\'=1+1,"x"'
        assert rows[0]["registers"] == "native=3;dvla=17"
        assert rows[4]["criteria"] == "plate=A1"
        assert [row["unverified"] for row in rows] == ["", "", "", "", "true"]
