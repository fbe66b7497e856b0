"""Sealing, verifying and pruning (D116). Tampering has a table, test_audit_tampering.py."""

import hashlib
import json
import os
import shutil
from datetime import datetime, timedelta

import msgspec
import pytest

from app.audit import index as indexing
from app.audit import seal as sealing
from app.audit.chain import Chain, Prune, digest_of, last_digest, read_chain, seals_of, with_digest
from app.audit.index import list_index_files
from app.audit.prune import prune
from app.audit.record import AuditError, time_of
from app.audit.seal import seal
from app.audit.search import Query, TimeSpan, first_moment, search
from app.audit.verify import verify
from app.audit.view import view_of
from tests.unit.audit_trails import HOUR_NS, Clock, look_up, names, opened, plates


class Sealed:
    """A trail of five sealed segments and one that is open."""

    def __init__(self, directory, hours):
        self.directory = directory
        self.chain = directory / "chain.ndjson"
        with opened(directory) as trail:
            for hour in range(6):
                for number in range(3):
                    trail.append(look_up(f"H{hour}N{number}"))
                hours.pass_hours(1)
                if hour < 5:
                    self.digest = seal(directory, current=False).digest
        hours.pass_hours(-1)
        self.names = names(directory)

    def path(self, number):
        return self.directory / f"{self.names[number - 1]}.ndjson"

    def rewrite(self, number, change):
        """Change the bytes of a segment as root can."""
        path = self.path(number)
        path.chmod(0o600)
        path.write_bytes(change(path.read_bytes()))
        path.chmod(0o400)

    def rewrite_chain(self, change):
        """Change the lines of the chain."""
        lines = change(self.chain.read_bytes().splitlines())
        self.chain.write_bytes(b"".join(line + b"\n" for line in lines))

    def prune(self, before_ns, **options):
        """Remove what is older than a time, where a day must be kept."""
        return prune(self.directory, "1d", before=time_of(int(before_ns)), **options)

    def faults(self, digest=None):
        """Return kind and number of each fault."""
        found = verify(self.directory, digest).faults
        return [(fault.kind, fault.subject.partition("-")[0].lstrip("0")) for fault in found]


@pytest.fixture
def hours(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def trail(tmp_path, hours):
    return Sealed(tmp_path / "audit", hours)


def test_an_untouched_trail_verifies(trail):
    """Nothing is reported that is not wrong."""
    verdict = verify(trail.directory, trail.digest)
    assert verdict.faults == []
    assert (verdict.segments, verdict.records) == (5, 15)
    assert (verdict.unsealed, verdict.unsealed_records) == (1, 3)
    assert verdict.digest == trail.digest


def test_a_segment_that_was_removed_before_it_was_sealed_is_named(trail, hours):
    """Numbers have no gaps, so what was never sealed is missed, too."""
    with opened(trail.directory) as opened_trail:
        opened_trail.append(look_up())
        trail.path(6).unlink()
        opened_trail.append(look_up())
    assert trail.faults() == [("removed", "7")]
    seal(trail.directory, current=True)
    (fault,) = verify(trail.directory, trail.digest).faults
    assert (fault.kind, fault.sentence) == (
        "removed",
        "segment 00000006: removed before being sealed",
    )


def test_what_is_no_file_is_not_searched(trail):
    """A search that would miss it fails."""
    trail.path(2).unlink()
    os.mkfifo(trail.path(2))
    with pytest.raises(OSError, match="not a regular file"):
        list(search(view_of(trail.directory), Query("plate", "H1N1"), scan=True))


def without_entry(data, key):
    """Remove the entries of a key from an index file."""
    return data[:16] + b"".join(each for each in entries_of(data) if each[:8] != key)


def entries_of(data):
    return [data[at : at + 16] for at in range(16, len(data), 16)]


class TestIndex:
    def test_a_merged_index_that_hides_a_record_is_found(self, trail, monkeypatch):
        """It is named, and built again once it is removed (D140)."""
        monkeypatch.setattr(indexing, "_FAN_IN", 3)
        seal(trail.directory, current=False)
        assert trail.faults() == []
        file = next(f for f in list_index_files(trail.directory) if f.covers(2))
        path = trail.directory / "index" / file.name
        whole = path.read_bytes()
        path.write_bytes(without_entry(whole, entries_of(whole)[0][:8]))
        assert verify(trail.directory).faults[0].kind == "index"
        assert file.name in verify(trail.directory).faults[0].sentence
        path.unlink()
        assert trail.faults() == []
        seal(trail.directory, current=False)
        assert trail.faults() == []

    def test_entries_of_segments_that_were_removed_by_age_do_no_harm(self, trail, hours):
        """A run that was killed may have left them."""
        index = trail.directory / "index"
        kept = {path: path.read_bytes() for path in index.iterdir()}
        hours.pass_hours(100)
        trail.prune(hours.now_ns - 103.5 * HOUR_NS)
        for path, data in kept.items():
            path.write_bytes(data)
        assert trail.faults() == []

    def test_what_is_no_file_does_not_stop_a_seal(self, trail):
        """The index is no evidence: it is built again, and what was recorded is sealed."""
        index = trail.directory / "index"
        (first, second, *_) = sorted(index.iterdir())
        first.unlink()
        os.mkfifo(first)
        second.rename(index / "elsewhere")
        second.symlink_to(index / "elsewhere")
        seal(trail.directory, current=True)
        assert trail.faults() == []
        assert len(list(search(view_of(trail.directory), Query("plate", "H0N0")))) == 1


def test_an_older_digest_proves_the_trail_until_then(trail, hours):
    """A digest stays valid when more is sealed."""
    hours.pass_hours(2)
    seal(trail.directory, current=True)
    assert trail.faults(trail.digest) == []


class TestSealing:
    def test_only_hours_that_are_over_are_sealed(self, trail):
        """The timer leaves the segment of the hour open."""
        assert seal(trail.directory, current=False).seals == []
        assert trail.path(6).stat().st_mode & 0o777 == 0o600
        assert trail.path(5).stat().st_mode & 0o777 == 0o400

    def test_the_current_hour_is_sealed_on_request(self, trail):
        """Afterwards the same hour continues in another segment."""
        done = seal(trail.directory, current=True)
        assert [line.segment for line in done.seals] == [trail.names[5]]
        with opened(trail.directory) as opened_trail:
            opened_trail.append(look_up("NEXT"))
        assert names(trail.directory)[-1] == f"00000007-{trail.names[5][9:]}"
        assert trail.faults(done.digest) == []

    def test_a_closed_segment_of_this_hour_is_sealed(self, trail):
        """A run that was killed had closed it, and nothing is appended to it any more."""
        trail.path(6).chmod(0o400)
        done = seal(trail.directory, current=False)
        assert [line.segment for line in done.seals] == [trail.names[5]]
        assert trail.faults(done.digest) == []

    def test_nothing_new_adds_nothing(self, trail):
        """A second run prints the same digest."""
        first = seal(trail.directory, current=True)
        assert seal(trail.directory, current=True) == ([], first.digest)

    def test_a_segment_of_the_future_is_sealed(self, trail, hours):
        """After a clock that was wrong for a while, segments do not stay open for years."""
        hours.pass_hours(10_000)
        with opened(trail.directory) as opened_trail:
            opened_trail.append(look_up("LATE"))
        hours.pass_hours(-10_000)
        assert len(seal(trail.directory, current=False).seals) == 2
        assert trail.faults() == []
        with opened(trail.directory) as opened_trail:
            opened_trail.append(look_up("NOW"))
        assert plates(trail.directory)[-1] == "NOW"
        assert names(trail.directory)[-1][9:] == names(trail.directory)[-2][9:]

    def test_a_clock_that_is_set_back_leaves_no_segment_out(self, trail, hours):
        """Back in an hour that was not sealed yet, while the next one has begun."""
        hours.pass_hours(1)
        with opened(trail.directory) as opened_trail:
            opened_trail.append(look_up("NEXT"))
        hours.pass_hours(-1)
        assert [line.segment[:8] for line in seal(trail.directory, current=False).seals] == [
            "00000006",
            "00000007",
        ]
        assert trail.faults() == []

    def test_the_digest_can_be_computed_with_other_tools(self, trail):
        """It is the SHA-256 of the line without its last member."""
        line = trail.chain.read_bytes().splitlines()[-1]
        head, _, digest = line.partition(b',"digest":"')
        assert hashlib.sha256(head + b"}").hexdigest() == digest[:64].decode() == trail.digest
        sealed = json.loads(line)
        data = trail.path(5).read_bytes()
        assert hashlib.sha256(data).hexdigest() == sealed["sha256"]
        assert (sealed["records"], sealed["bytes"]) == (3, len(data))
        assert sealed["first"] < sealed["last"]

    def test_an_incomplete_record_is_cut_off_before_it_is_sealed(self, trail):
        """What a killed process left is not evidence of anything."""
        with trail.path(6).open("ab") as file:
            file.write(b'{"time":')
        seal(trail.directory, current=True)
        assert trail.path(6).read_bytes().endswith(b"}\n")
        assert trail.faults() == []

    @pytest.mark.parametrize(
        "moment",
        ["_close", "digest_file", "gather", "with_digest", "add_index"],
    )
    def test_a_run_that_ended_early_is_completed(self, trail, monkeypatch, moment):
        """Whenever a run is killed, the next one converges to the same state."""

        def die(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as killed:
            killed.setattr(sealing, moment, die)
            with pytest.raises(KeyboardInterrupt):
                seal(trail.directory, current=True)
        assert seal(trail.directory, current=True).digest
        assert trail.faults() == []
        assert verify(trail.directory).segments == 6
        assert {p.name[:8] for p in (trail.directory / "index").iterdir()} == {
            f"{n:08}" for n in range(1, 7)
        }

    def test_an_incomplete_line_of_the_chain_is_written_again(self, trail):
        """A power cut while the chain is written does no harm."""
        data = trail.chain.read_bytes()
        trail.chain.write_bytes(data[:-30])
        assert [line.segment for line in seal(trail.directory, current=False).seals] == [
            trail.names[4]
        ]
        assert trail.faults() == []

    def test_a_changed_chain_is_not_continued(self, trail):
        """What follows would look as if the change were right."""
        trail.rewrite_chain(
            lambda lines: [*lines[:2], lines[2].replace(b'"records":3', b'"records":4')]
        )
        with pytest.raises(AuditError, match=r"line 3 of .* was changed"):
            seal(trail.directory, current=True)

    def test_numbers_are_not_used_again(self, trail, hours):
        """Without any segment left the chain still says which numbers were used."""
        shutil.copytree(trail.directory, trail.directory.with_name("copy"))
        for path in trail.directory.glob("*-*.ndjson"):
            path.unlink()
        with opened(trail.directory) as opened_trail:
            opened_trail.append(look_up())
        assert names(trail.directory)[0].startswith("00000006")


class TestPruning:
    def test_pruned_segments_are_gone_and_the_chain_verifies(self, trail, hours):
        """Their digests stay, and a digest kept elsewhere still fits."""
        hours.pass_hours(100)
        done = trail.prune(hours.now_ns - 101.5 * HOUR_NS)
        assert done.segments == trail.names[:3]
        assert (done.records, done.bytes > 0) == (9, True)
        assert names(trail.directory)[:3] == trail.names[3:]
        verdict = verify(trail.directory, trail.digest)
        assert (verdict.faults, verdict.segments, verdict.pruned) == ([], 4, 3)

    def test_a_record_of_that_very_time_stays(self, trail, hours):
        """Older means before; a microsecond later the segment is old enough."""
        hours.pass_hours(100)
        sealed = next(iter(seals_of(Chain(trail.directory).lines).values())).time
        assert prune(trail.directory, "1d", before=sealed).segments == []
        later = datetime.fromisoformat(sealed) + timedelta(microseconds=1)
        removed = prune(trail.directory, "1d", before=first_moment(later.isoformat())).segments
        assert removed == trail.names[:1]

    def test_only_what_is_sealed_is_removed(self, trail, hours):
        """Segments that are not in the chain yet stay."""
        hours.pass_hours(100)
        assert len(trail.prune(hours.now_ns - 50 * HOUR_NS).segments) == 5
        assert names(trail.directory)[0] == trail.names[5]
        assert trail.faults(trail.digest) == []

    def test_a_run_that_ended_early_is_completed(self, trail, hours, monkeypatch):
        """The chain notes first what is removed; the next run removes it."""
        hours.pass_hours(100)
        before_ns = hours.now_ns - 103.5 * HOUR_NS
        with monkeypatch.context() as killed:

            def die(*_):
                raise KeyboardInterrupt

            killed.setattr("app.audit.prune._remove", die)
            with pytest.raises(KeyboardInterrupt):
                trail.prune(before_ns)
        assert {kind for kind, _ in trail.faults()} == {"restored"}
        assert trail.prune(before_ns).segments == []
        assert trail.faults(trail.digest) == []

    def test_the_hashes_of_removed_plates_are_removed(self, trail, hours):
        """A hash of a plate can be guessed, so it is personal data."""
        hours.pass_hours(100)
        trail.prune(hours.now_ns - 103.5 * HOUR_NS)
        kept = {path.name for path in (trail.directory / "index").iterdir()}
        assert "00000001-00000001.0" not in kept
        assert "00000005-00000005.0" in kept


def test_every_line_of_the_chain_is_read_as_it_was_written(trail):
    """The digest of a line is that of its own text."""
    for each in read_chain(trail.directory):
        assert each.line is not None
        assert each.digest == each.line.digest == digest_of(each.line)


def test_the_latest_digest_is_that_of_a_long_line(trail):
    """A prune names all that it removes: that of two years is a line of 455 KB."""
    chain = Chain(trail.directory)
    old = [f"{number:08}-20241122T15" for number in range(17_500)]
    time = "2026-11-22T15:00:00.000000Z"
    line = with_digest(Prune(time=time, before=time, segments=old, previous=chain.digest))
    chain.add(line)
    assert last_digest(trail.directory) == line.digest


def test_a_second_seal_of_a_segment_hides_nothing(trail):
    """A search by time trusts the same line as `verify`, which is the first one."""
    chain = Chain(trail.directory)
    first, *_ = seals_of(chain.lines).values()
    forged = msgspec.structs.replace(first, first="", last="", previous=chain.digest)
    chain.add(with_digest(forged))
    query = Query("plate", "H0N0", TimeSpan(since=first_moment("2000-01-01")))
    assert len(list(search(view_of(trail.directory), query))) == 1


def test_a_read_only_copy_can_be_verified(trail, tmp_path):
    """A copy on another machine needs no lock and no owner."""
    copy = tmp_path / "copy"
    shutil.copytree(trail.directory, copy, ignore=shutil.ignore_patterns("*.lock", "owner.json"))
    for path in [*copy.rglob("*"), copy]:
        os.chmod(path, 0o500 if path.is_dir() else 0o400)
    assert verify(copy, trail.digest).faults == []
    for path in [copy, *copy.rglob("*")]:
        os.chmod(path, 0o700)
