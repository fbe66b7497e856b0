"""Searches, exports and reports read trails as they were, each record once (D160, D161)."""

import os
import shutil
from collections import Counter

import pytest

from app.audit.export import records_in
from app.audit.prune import prune
from app.audit.record import AuditError, Record, time_of
from app.audit.report import report
from app.audit.seal import seal
from app.audit.search import Query, TimeSpan, estimate, search
from app.audit.segments import list_segments
from app.audit.view import view_of, views_of
from tests.unit.audit_trails import Clock, look_up, opened

HOUR = 3600


@pytest.fixture
def hours(monkeypatch):
    return Clock(monkeypatch)


class Host:
    """A trail that a test writes to; each record has a plate of its own, and one user."""

    def __init__(self, directory, hours, name="R"):
        self.directory, self._hours, self._name, self.plates = directory, hours, name, []

    def look_ups(self, number, hours=1):
        """Record some look-ups, and let time pass."""
        with opened(self.directory) as trail:
            for _ in range(number):
                self.plates.append(f"{self._name}{len(self.plates)}")
                trail.append(look_up(self.plates[-1], user="ann"))
        self._hours.pass_hours(hours)

    def copy(self, path, *, owner=True, name=None):
        """Copy the trail, and go on with the copy as another host does."""
        shutil.copytree(self.directory, path)
        if not owner:
            (path / "owner.json").unlink()
        other = Host(path, self._hours, name or self._name)
        other.plates = list(self.plates)
        return other


@pytest.fixture
def host(tmp_path, hours):
    """A trail of three hours, two of them sealed."""
    host = Host(tmp_path / "audit", hours)
    for _ in range(2):
        host.look_ups(5)
        seal(host.directory, current=False)
    host.look_ups(5, 0)
    return host


def read(*directories):
    """Return the plates that searches, an export and a report read, which are the same."""
    views = views_of(directories)
    exported = [
        record.plates[0].plate
        for view in views
        for _, record in records_in(view, TimeSpan())
        if record and record.plates
    ]
    query = Query("user", "ann")
    for scan in (False, True):
        for newest_first in (False, True):
            found = [
                record.plates[0].plate
                for view in views
                for record in search(view, query, scan=scan, newest_first=newest_first)
            ]
            assert Counter(found) == Counter(exported)
    assert report(views, TimeSpan()).look_ups == len(exported)
    for plate in {*exported[:1], *exported[-1:]}:
        assert sum(len(list(search(view, Query("plate", plate)))) for view in views) == 1
    return exported


class TestPosition:
    @pytest.mark.parametrize(
        "ahead", [60, 24 * HOUR, 3 * 365 * 24 * HOUR, -60, -30 * 365 * 24 * HOUR]
    )
    @pytest.mark.parametrize("sealed", ["never", "ahead", "later"])
    def test_a_wrong_clock_hides_nothing(self, host, hours, ahead, sealed):
        """Records of a clock that was ahead or back, and is right again, are in every result."""
        hours.pass_hours(ahead / HOUR)
        host.look_ups(5, 0)
        if sealed == "ahead":
            seal(host.directory, current=True)
        hours.pass_hours(-ahead / HOUR)
        host.look_ups(5, 0)
        if sealed == "later":
            seal(host.directory, current=True)
        assert read(host.directory) == host.plates

    def test_what_comes_later_is_not_read(self, host, hours):
        """Neither in the same segment nor in the next one, nor if it was sealed meanwhile."""
        host.look_ups(5, 0)
        view = view_of(host.directory)
        before = list(host.plates)
        host.look_ups(5)
        host.look_ups(5)
        seal(host.directory, current=False)
        records = list(search(view, Query("user", "ann"), newest_first=True))
        assert [record.plates[0].plate for record in records] == before[::-1]

    def test_an_incomplete_line_is_not_waited_for(self, host):
        """A killed process left it; the next record is in its place, and not in the view."""
        host.look_ups(5, 0)
        last = host.directory / list_segments(host.directory)[-1].file_name
        with last.open("ab") as file:
            file.write(b'{"time":"2026' + b"x" * 5_000)
        view, before = view_of(host.directory), list(host.plates)
        host.look_ups(5)
        assert len(list(search(view, Query("user", "ann")))) == len(before)

    def test_a_pruned_segment_is_named(self, host, hours):
        """What was removed meanwhile cannot be shown, so nothing is."""
        view = view_of(host.directory)
        prune(host.directory, "1d", before=time_of(hours.now_ns))
        for read_all in (search(view, Query("user", "ann")), records_in(view, TimeSpan())):
            with pytest.raises(AuditError, match="was removed meanwhile; try again"):
                list(read_all)
        assert read(host.directory) == host.plates[-5:]

    @pytest.mark.parametrize("time", ["", "zzz", "99999-01-01", "\U0010ffff"])
    def test_a_text_that_is_no_time_hides_nothing(self, host, time):
        """Somebody may have written it to a segment that is not sealed yet."""
        with opened(host.directory) as trail:
            record = look_up("X1", user="ann")
            record.time = time
            trail.append(record)
        assert read(host.directory) == [*host.plates, "X1"]

    def test_an_empty_trail_has_nothing(self, tmp_path, hours):
        """Only its owner, or a segment without records."""
        with opened(tmp_path / "audit"):
            assert read(tmp_path / "audit") == []
        (tmp_path / "audit" / "00000001-20261122T15.ndjson").touch()
        assert read(tmp_path / "audit") == []

    def test_a_line_without_end_is_read_once(self, host):
        """Not by each block that it fills."""
        last = host.directory / list_segments(host.directory)[-1].file_name
        with last.open("ab") as file:
            file.write(b'"ann"' * 400_000)
        assert read(host.directory) == host.plates

    def test_a_pipe_is_no_segment(self, host):
        """Nothing waits for it."""
        os.mkfifo(host.directory / "00000009-20300101T00.ndjson")
        view = view_of(host.directory)
        with pytest.raises(OSError, match="not a regular file"):
            list(search(view, Query("user", "ann")))


def both_orders(wanted, *hosts):
    """Require that trails are read once, whichever is given first."""
    directories = [host.directory for host in hosts]
    for order in (directories, directories[::-1]):
        assert sorted(read(*order)) == sorted(wanted)


class TestCopies:
    @pytest.mark.parametrize("owner", [True, False])
    def test_a_copy_counts_once(self, host, tmp_path, owner):
        """Three times the same, with or without the file of the owner, and the same directory."""
        copies = [host.copy(tmp_path / name, owner=owner) for name in ("one", "two")]
        both_orders(host.plates, host, *copies, host)

    def test_an_older_copy_counts_once(self, host, tmp_path):
        """It ends within a segment that went on, and was sealed later."""
        copy = host.copy(tmp_path / "copy")
        host.look_ups(5, 0)
        cut = copy.directory / list_segments(copy.directory)[-1].file_name
        os.truncate(cut, cut.stat().st_size - 40)  # It was copied while a record was written.
        both_orders(host.plates, host, copy)
        host.look_ups(5)
        seal(host.directory, current=False)
        both_orders(host.plates, host, copy)
        seal(copy.directory, current=True)
        both_orders(host.plates, host, copy)

    def test_copies_that_lack_something_complete_each_other(self, host, hours, tmp_path):
        """One was pruned, and another lacks the end and its index."""
        copy = host.copy(tmp_path / "copy")
        (copy.directory / list_segments(copy.directory)[-1].file_name).unlink()
        shutil.rmtree(copy.directory / "index")
        assert prune(host.directory, "1d", before=time_of(hours.now_ns)).records == 10
        both_orders(host.plates, host, copy)

    def test_a_trail_that_went_on_twice_counts_both(self, host, tmp_path):
        """A restored copy or a cloned machine: what they share once, and what each one added."""
        host.look_ups(5, 0)
        clone = host.copy(tmp_path / "clone", name="C")
        shared = len(host.plates)
        for each in (host, clone):
            each.look_ups(5)
        both_orders([*host.plates, *clone.plates[shared:]], host, clone)
        for each in (host, clone):
            seal(each.directory, current=True)
            each.look_ups(5, 0)
        both_orders([*host.plates, *clone.plates[shared:]], host, clone)

    def test_a_copy_that_was_changed_hides_nothing(self, host, tmp_path):
        """Somebody removed a record from a sealed segment; the other trail has it."""
        copy = host.copy(tmp_path / "copy")
        changed = host.directory / list_segments(host.directory)[0].file_name
        lines = changed.read_bytes().splitlines(keepends=True)
        changed.chmod(0o600)
        changed.write_bytes(b"".join(lines[:2] + lines[3:]))
        for order in ((host, copy), (copy, host)):
            views = views_of([each.directory for each in order])
            exported = {line for view in views for line, _ in records_in(view, TimeSpan())}
            assert {line + b"\n" for line in exported} >= set(lines)

    def test_two_hosts_are_no_copies(self, hours, tmp_path):
        """Segments of the same names, and empty ones, of two trails have nothing in common."""
        hosts = [Host(tmp_path / name, hours, name) for name in "AB"]
        for _ in range(3):
            for each in hosts:
                each.look_ups(5, 0)
                seal(each.directory, current=True)
        assert {s.name for s in list_segments(hosts[0].directory)} == {
            s.name for s in list_segments(hosts[1].directory)
        }
        both_orders([plate for each in hosts for plate in each.plates], *hosts)

    def test_a_copy_that_is_gone_meanwhile_is_named(self, host, tmp_path):
        """What it had in common is not known any more."""
        copy = host.copy(tmp_path / "copy")
        host.look_ups(5, 0)
        views = views_of([copy.directory, host.directory])
        shutil.rmtree(copy.directory)
        with pytest.raises(AuditError, match="was removed meanwhile"):
            list(records_in(views[1], TimeSpan()))


def test_an_estimate_is_about_right(tmp_path, hours):
    """Of records that are everywhere, in one place and nowhere."""
    host = Host(tmp_path / "audit", hours)
    for _ in range(12):
        host.look_ups(1_000)
    seal(host.directory, current=False)
    view = view_of(host.directory)
    used: list[Record] = []
    about = estimate(view, Query("account", "acme"), used.append)
    assert 9_000 < about.records < 15_000
    assert 0 < len(used) < 12_000
    assert about.seconds > 0
    assert estimate(view, Query("plate", "R17"), used.append).records <= 1
    assert estimate(view, Query("plate", "NONE"), used.append).records == 0
