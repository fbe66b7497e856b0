"""Every night a trail is verified, without reading all of it again (D167)."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import clock
from app.audit.verified import DAYS, Verified
from app.audit.verify import Verdict, verify
from tests.unit.audit_trails import HOUR_NS, Clock
from tests.unit.test_audit_chain import Sealed

DAY_NS = 24 * HOUR_NS


class Nights:
    """A trail that is verified every night."""

    def __init__(self, trail: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trail, self.data_dir = trail, data_dir
        self.now_ns = clock.now_ns() + DAY_NS
        monkeypatch.setattr(clock, "now", lambda: self.now_ns // 10**9)
        self.read = 0
        # All files are read now, and none has its turn in the next night.
        turns = SimpleNamespace(crc32=lambda name: self.turns.get(name, 0))
        monkeypatch.setattr("app.audit.verified.zlib", turns)
        self.turns: dict[bytes, int] = {}
        self.now_ns -= self.now_ns // DAY_NS % DAYS * DAY_NS
        assert self.verify().faults == []
        assert self.read == len(trail.names) - 1 + len(os.listdir(trail.directory / "index"))
        self.pass_days(1)

    @property
    def state(self) -> Path:
        return self.data_dir / "verified.json"

    def pass_days(self, days: int) -> None:
        self.now_ns += days * DAY_NS

    def verify(self) -> Verdict:
        verified = Verified.load(self.data_dir)
        found = verify(self.trail.directory, verified=verified)
        verified.save(self.data_dir)
        self.read = verified.read
        return found


@pytest.fixture
def nights(tmp_path, monkeypatch):
    trail = Sealed(tmp_path / "audit", Clock(monkeypatch))
    return Nights(trail, tmp_path, monkeypatch)


def test_what_was_sound_is_read_again_after_30_days(nights):
    """Until then its seal counts, and nothing else in the result differs."""
    whole = verify(nights.trail.directory)
    assert (nights.verify(), nights.read) == (whole, 0)
    nights.pass_days(DAYS - 2)
    assert (nights.verify(), nights.read) == (whole, 0)
    nights.pass_days(1)
    nights.verify()
    assert nights.read >= 6


def test_a_change_with_the_times_of_before_is_found_the_next_night(nights):
    """A file shows when its state last changed, and only the clock could set that."""
    path = nights.trail.path(2)
    was = path.stat()
    data = bytearray(path.read_bytes())
    data[9] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o400)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    for _ in range(2):
        assert [fault.kind for fault in nights.verify().faults] == ["changed"]


def test_an_index_that_hides_a_record_is_found_the_next_night(nights):
    """The files of the index are remembered in the same way."""
    path = next(iter(sorted((nights.trail.directory / "index").iterdir())))
    path.write_bytes(path.read_bytes()[:-16])
    for _ in range(2):
        assert [fault.kind for fault in nights.verify().faults] == ["index"]


@pytest.mark.parametrize("state", [b"", b"{", b"[]", b'{"x": 1}', b"\xff", None])
def test_a_damaged_or_missing_file_means_more_work(nights, state):
    """Everything is read, and remembered again."""
    if state is None:
        nights.state.unlink()
    else:
        nights.state.write_bytes(state)
    nights.verify()
    assert nights.read >= 6
    nights.verify()
    assert nights.read == 0


def test_a_forged_file_hides_a_change_until_its_turn(nights):
    """Also if the day is forged every night."""
    nights.trail.rewrite(2, lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:])
    name = f"{nights.trail.names[1]}.ndjson"
    nights.turns[name.encode()] = 20
    unseen = 0
    while True:
        state = json.loads(nights.state.read_bytes())
        path = nights.trail.path(2)
        state[name] = [nights.now_ns // DAY_NS, forged_mark(path, nights.trail)]
        nights.state.write_text(json.dumps(state))
        if nights.verify().faults:
            break
        unseen += 1
        nights.pass_days(1)
    assert unseen == 19


def forged_mark(path: Path, trail: Any) -> str:
    """Return the mark that a changed file would have if it had been found sound."""
    found: list[str] = []

    class Forger(Verified):
        def is_due(self, due: Path, expected: str) -> bool:
            if due == path:
                super().is_due(due, expected)
                found.append(self._marks[due.name][1])
            return False

    verify(trail.directory, verified=Forger())
    return found[0]


def test_a_day_that_is_still_to_come_postpones_nothing(nights):
    """A clock that was ahead is no reason to read nothing for years."""
    known = json.loads(nights.state.read_bytes())
    state = {name: [day + 1000, mark] for name, (day, mark) in known.items()}
    nights.state.write_text(json.dumps(state))
    nights.verify()
    assert nights.read >= 6


def test_what_is_known_cannot_be_written(nights, tmp_path):
    """That stops no verification."""
    verified = Verified.load(tmp_path)
    verified.save(tmp_path / "gone")
    assert verified.read == 0
