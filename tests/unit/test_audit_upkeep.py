"""What a trail says about itself: ages, prunes, and what somebody acknowledged (D164)."""

import shutil
from typing import Any

import pytest

from app.actions import Session
from app.audit import prune as pruning
from app.audit.chain import Chain, Prune, Seal, read_chain, with_digest
from app.audit.prune import AMOUNT, CLOCK, PruneRefused, prune
from app.audit.record import AuditError, Upkeep, time_of
from app.audit.seal import seal
from app.audit.search import operations
from app.audit.upkeep import acknowledge, prune_faults, read_upkeep, steps_back, times_of
from app.audit.verify import verify
from app.audit.view import view_of
from tests.rows import each_row
from tests.unit.audit_trails import HOUR_NS, Clock, lines, look_up, names, opened

ANN = Session("ann", None)


class Hours:
    """A trail with a segment an hour, and its clock."""

    def __init__(self, directory: Any, clock: Clock) -> None:
        self.directory, self.clock = directory, clock

    def fill(self, hours: int) -> None:
        """Let hours pass, each with a record and a seal at its end."""
        with opened(self.directory) as trail:
            for _ in range(hours):
                trail.append(look_up())
                self.clock.pass_hours(1)
                seal(self.directory, current=False)

    def prune(self, hours: float, keep: str = "1d", **options: Any) -> Any:
        """Remove what is older than some hours."""
        before = time_of(int(self.clock.now_ns - hours * HOUR_NS))
        return prune(self.directory, keep, before=before, by=ANN, **options)

    def forge(self, **members: Any) -> None:
        """Append a line that removes the first segment, as root can."""
        chain = Chain(self.directory)
        first = names(self.directory)[0]
        told = {"time": time_of(self.clock.now_ns), "segments": [first], **members}
        chain.add(with_digest(Prune(previous=chain.digest, **told)))
        (self.directory / f"{first}.ndjson").unlink()

    def told(self, member: str) -> list[Any]:
        """Return a member of the record of each prune."""
        view = view_of(self.directory)
        return [getattr(record.upkeep, member) for _, record in operations(view, "prune")]

    def faults(self) -> list[str]:
        """Return the kinds of faults."""
        return [fault.kind for fault in verify(self.directory, keep="1d").faults]

    def notes(self) -> list[tuple[str, str]]:
        """Return kind and subject of each note."""
        return [(each.kind, each.subject) for each in verify(self.directory, keep="1d").notes]


@pytest.fixture
def trail(tmp_path, monkeypatch):
    """A trail of 60 hours, sealed."""
    found = Hours(tmp_path / "audit", Clock(monkeypatch))
    found.fill(60)
    return found


def at(hour: int) -> str:
    """Return a time of a record; hours can be negative or large."""
    return time_of((1_793_600_000 + hour * 3600) * 10**9)


def seals(*times: int | tuple[int, int]) -> list[Seal]:
    """Return seals by the hours of their last record and of themselves."""
    pairs = [each if isinstance(each, tuple) else (each, each) for each in times]
    return [
        Seal(
            time=at(sealed),
            segment=f"{number:08}-20261101T00",
            records=1,
            bytes=1,
            first=at(last),
            last=at(last),
            sha256="",
            index="",
            previous="",
        )
        for number, (last, sealed) in enumerate(pairs, 1)
    ]


YEAR = 365 * 24


class TestAges:
    @each_row(
        ("times", "expected"),
        [
            ((1, 2, 3), (1, 2, 3)),
            # A record of 1970 is as old as what was sealed before it.
            ((1, (-50 * YEAR, 2), 3), (1, 2, 3)),
            ((5, -50 * YEAR, 6), (5, 5, 6)),
            # While a clock was ahead, nothing later is older than that.
            ((1, YEAR, 2, 3), (1, YEAR, YEAR, YEAR)),
            (((YEAR, 1), 2), (YEAR, YEAR)),
            ((), ()),
        ],
    )
    def test_a_segment_is_as_old_as_the_latest_evidence(self, times, expected):
        """Its records, its seal and all earlier seals."""
        found = seals(*times)
        assert list(times_of(found, []).values()) == [at(each) for each in expected]

    @each_row(
        ("times", "expected"),
        [
            # What was sealed meanwhile is at most as young as the next right seal.
            ((1, YEAR, YEAR + 1, 2, 3), (1, 2, 2, 2, 3)),
            (((YEAR, 1), 2), (1, 2)),
            ((1, (2, YEAR), 3), (1, 3, 3)),
        ],
    )
    def test_times_that_were_ahead_do_not_count_once_acknowledged(self, times, expected):
        """One acknowledgement is enough for all of the time before the step back."""
        found = seals(*times)
        steps = [step for step in steps_back(found) if step.is_ahead]
        assert len(steps) == 1
        assert list(times_of(found, steps).values()) == [at(each) for each in expected]

    @each_row(
        ("times", "where"),
        [((1, 2, 3), []), ((1, YEAR, 2), [2]), (((2, 1), 3), [1]), ((1, 2, -50 * YEAR, 3), [2])],
    )
    def test_steps_back_are_found(self, times, where):
        """Where a record or a seal is later than what follows it."""
        assert [int(step.seal.segment[:8]) for step in steps_back(seals(*times))] == where

    def test_a_clock_that_fell_to_1970_was_not_ahead_before(self):
        """Such a step cannot be acknowledged: everything would be old."""
        (step,) = steps_back(seals(1, 2, -50 * YEAR, 3))
        assert not step.is_ahead


class TestPruning:
    def test_the_run_is_recorded_and_sealed_first(self, trail, monkeypatch):
        """With its age and who ran it, also if it is killed before it removes anything."""

        def die(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as killed:
            killed.setattr(pruning, "with_digest", die)
            with pytest.raises(KeyboardInterrupt):
                trail.prune(50)
        record = list(lines(trail.directory))[-1]
        assert (record["operation"], record["login"]) == ("prune", "ann")
        assert (record["upkeep"]["keep"], record["upkeep"]["segments"]) == ("1d", 10)
        assert len(trail.prune(50).segments) == 10
        assert trail.faults() == []

    def test_a_run_that_removes_nothing_leaves_no_record(self, trail):
        """Nor a segment of its own."""
        before = names(trail.directory)
        assert trail.prune(100).segments == []
        assert names(trail.directory) == before

    def test_another_age_is_recorded_even_if_nothing_is_removed(self, trail):
        """`verify` notes it, with who ran it."""
        trail.prune(50)
        assert trail.prune(100, keep="2d").segments == []
        (note,) = verify(trail.directory, keep="1d").notes
        assert note.kind == "age"
        assert note.sentence.endswith("2d are kept instead of 1d (ann)")

    def test_an_age_that_is_not_that_of_the_setting_is_recorded(self, trail):
        """As of a unit that was edited before there was a setting."""
        trail.prune(100, keep="12m", setting="24m")
        assert trail.told("keep") == ["12m"]

    def test_a_clock_that_jumped_must_be_accepted(self, trail):
        """The refusal names the command; the acceptance is recorded."""
        with pytest.raises(PruneRefused, match=r"clock is wrong.*audit prune --accept-clock"):
            trail.prune(50, jump="the clock is wrong")
        assert trail.told("keep") == []
        assert trail.prune(50, jump="the clock is wrong", accepted=[CLOCK]).records == 10
        assert trail.told("accepted") == [["clock"]]
        assert trail.prune(100, jump="the clock is wrong").segments == []

    def test_more_than_seven_days_must_be_accepted(self, trail):
        """Hours count, not segments."""
        trail.fill(160)
        with pytest.raises(PruneRefused, match=r"169 hours.*--accept-amount"):
            trail.prune(50.5)
        assert trail.prune(51.5).records == 168
        trail.fill(169)
        assert trail.prune(50.5, accepted=[AMOUNT]).records == 171
        assert trail.faults() == []

    def test_a_forged_line_removes_no_other_file(self, trail):
        """A name in it can be that of any file."""
        chain = Chain(trail.directory)
        names = ["chain", "../other"]
        line = Prune(time=at(0), before=at(0), segments=names, previous=chain.digest)
        chain.add(with_digest(line))
        other = trail.directory.parent / "other.ndjson"
        other.touch()
        trail.prune(50)
        assert other.exists()
        assert (trail.directory / "chain.ndjson").exists()

    def test_what_was_sealed_with_the_clock_ahead_stays(self, trail):
        """Its time is not trusted until somebody acknowledges the step back."""
        trail.clock.pass_hours(YEAR)
        trail.fill(2)
        trail.clock.pass_hours(-YEAR)
        trail.fill(60)
        step = names(trail.directory)[61]
        assert trail.notes() == [("ahead", step)]
        acknowledge(trail.directory, "1d", step, ANN, "the battery was empty")
        assert trail.prune(55).segments[-1] > step
        assert trail.faults() == []


class TestVerifying:
    def test_a_prune_without_its_record_is_a_fault(self, trail):
        """Once a release that records them has run; before, age and time decide."""
        old = at(60 - 49)
        trail.forge(before=old)
        assert trail.faults() == []
        trail.prune(50)
        assert trail.faults() == []
        trail.forge(before=old)
        assert trail.faults() == ["pruned_early"]

    def test_records_of_prunes_that_were_removed_are_not_missed(self, trail):
        """By then their lines are as old as what they removed."""
        for _ in range(4):
            trail.prune(50)
            trail.fill(50)
        assert len(trail.told("keep")) < 4
        assert trail.faults() == []

    def test_a_shorter_age_is_judged_by_its_own_record(self, trail):
        """An earlier run is judged by the age of that time."""
        trail.fill(30)
        trail.prune(80, keep="3d")
        trail.prune(50, keep="1d")
        assert verify(trail.directory, keep="24m").faults == []


class TestAcknowledging:
    def test_an_early_prune_becomes_a_note(self, trail):
        """With who accepted it and why, also for the next years."""
        trail.forge(before="9999")
        (fault,) = verify(trail.directory).faults
        acknowledge(trail.directory, "24m", fault.subject, ANN, "the clock was wrong")
        found = verify(trail.directory)
        assert found.faults == []
        (note,) = found.notes
        assert note.sentence.endswith("Z (ann): the clock was wrong")
        with pytest.raises(AuditError, match="was acknowledged before \\(ann\\)"):
            acknowledge(trail.directory, "24m", fault.subject, ANN, None)

    def test_it_outlives_its_segment(self, trail):
        """A prune that removes it writes it again, with its time, who made it, and why."""
        trail.forge(before="9999")
        (fault,) = verify(trail.directory).faults
        made_at = time_of(trail.clock.now_ns)[:13]
        acknowledge(trail.directory, "24m", fault.subject, ANN, "the clock was wrong")
        for _ in range(2):
            trail.fill(60)
            trail.prune(50)
            found = verify(trail.directory, keep="1d")
            assert found.faults == []
            (note,) = found.notes
            assert f"acknowledged on {made_at}" in note.sentence
            assert note.sentence.endswith("Z (ann): the clock was wrong")
        assert len(read_upkeep(trail.directory).acknowledgements) == 1

    def test_one_that_came_before_its_fault_is_not_written_again(self, trail):
        """It was forged, and would accept a fault that is still to come."""
        with opened(trail.directory) as opened_trail:
            forged = Upkeep(fault="chain:61")
            opened_trail.append(look_up(plates=[], operation="acknowledge", upkeep=forged))
        trail.fill(60)
        trail.prune(50)
        assert read_upkeep(trail.directory).acknowledgements == []

    def test_a_changed_segment_stays_a_fault(self, trail):
        """Even if the clock was ahead in it, and somebody has acknowledged that."""
        trail.clock.pass_hours(-3)
        trail.fill(3)
        ((_, step),) = trail.notes()
        acknowledge(trail.directory, "24m", step, ANN, None)
        path = trail.directory / f"{step}.ndjson"
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(b"acme", b"Acme"))
        assert trail.faults() == ["changed"]
        with pytest.raises(AuditError, match="no fault that can be acknowledged"):
            acknowledge(trail.directory, "24m", names(trail.directory)[3], ANN, None)

    def test_a_copy_is_judged_as_the_trail(self, trail, tmp_path):
        """Records of upkeep are found without an index, and in segments that are not sealed."""
        trail.prune(50)
        trail.forge(before="9999")
        (fault,) = verify(trail.directory, keep="1d").faults
        acknowledge(trail.directory, "1d", fault.subject, ANN, None)
        copy = tmp_path / "copy"
        shutil.copytree(trail.directory, copy, ignore=shutil.ignore_patterns("index", "*.lock"))
        assert verify(copy, keep="1d").faults == []
        assert [each.kind for each in verify(copy, keep="1d").notes] == ["pruned_early"]


def test_an_empty_chain_has_no_prunes(tmp_path):
    """Nor a trail that does not exist."""
    (tmp_path / "audit").mkdir()
    upkeep = read_upkeep(tmp_path / "audit")
    assert list(prune_faults(read_chain(tmp_path / "audit"), upkeep, "24m")) == []
