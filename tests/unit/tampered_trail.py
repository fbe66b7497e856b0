"""A small real trail, what was kept of it elsewhere, and what root can do to a copy of it."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import msgspec
import pytest

from app import clock
from app.actions import Session
from app.audit.chain import NO_DIGEST, Line, Prune, Seal, digest_of, readable_lines, seals_of
from app.audit.digests import KeptDigests, find_digests, latest
from app.audit.faults import Fault
from app.audit.index import complete_index, gather
from app.audit.prune import prune
from app.audit.record import Criteria, Plate, Record, Upkeep, time_of
from app.audit.seal import digest_file, seal
from app.audit.segments import list_segments, segment_number
from app.audit.upkeep import acknowledge
from app.audit.verified import Verified
from app.audit.verify import Verdict, verify
from tests.rows import each_row
from tests.unit.audit_trails import HOUR_NS, Clock, look_up, names, opened

ANN = Session("ann", None)
KEEP = "2d"
_ENTRY_BYTES = 16


class Kind(NamedTuple):
    """A kind of tampering."""

    name: str
    do: Callable[["Root"], object]
    faults: str
    """The kind and the place of each fault."""
    words: str = ""
    """A part of what the first fault says."""


def rows(kinds: list[Kind]) -> Any:
    """Call a test with each kind."""
    return each_row("kind", kinds, [each.name for each in kinds])


def named(faults: list[Fault]) -> str:
    """Return kind and place of each fault; a segment by its number."""
    return ", ".join(f"{each.kind} {_place(each.subject)}" for each in faults)


def _place(subject: str) -> str:
    number = subject.partition("-")[0]
    return str(int(number)) if number.isdigit() else number


class Original:
    """A trail, its digests as they left the host, an older backup of it, and another trail.

    Segments 1 to 3 were pruned, which line 11 of the chain says, and the record of that is in 10.
    The clock was ahead in segment 7, which a record in 9 acknowledges. Segments 14 and 15 are not
    sealed yet.
    """

    def __init__(self, directory: Path, clock_: Clock) -> None:
        self.clock = clock_
        self.trail, self.older, self.other = (
            directory / name for name in ("audit", "older", "other")
        )
        self.kept_lines: list[str] = []
        self._fill(4)
        self.first = (self.trail / f"{names(self.trail)[0]}.ndjson").read_bytes()
        clock_.pass_hours(98)
        self._fill(2)
        clock_.pass_hours(3)
        self._fill(1)
        clock_.pass_hours(-3)
        self._fill(1)
        self._keep()
        clock_.pass_hours(2)
        acknowledge(self.trail, KEEP, self.names[6], ANN, "the battery was empty")
        self._fill(1)
        self.prune(self.trail, 105.5, by=ANN)
        self._keep()
        self._fill(1)
        self.append(self.trail, 12)
        copy(self.trail, self.older)
        self._fill(2)
        self._keep()
        self.append(self.trail, 14)
        clock_.pass_hours(1)
        self.append(self.trail, 15)
        for number in range(13):
            self.append(self.other, number, "X")
            clock_.pass_hours(1)
            seal(self.other, current=False)
        self.other_line = str(latest(self.other))
        clock_.pass_hours(98)
        self.now_ns = clock_.now_ns

    @property
    def names(self) -> list[str]:
        """The names of all segments that were ever sealed, and of those that are there."""
        sealed = seals_of(readable_lines(self.trail))
        return sorted({*sealed, *names(self.trail)})

    def append(self, directory: Path, number: int, letter: str = "S") -> None:
        """Append three look-ups, and a search."""
        with opened(directory) as trail:
            for each in range(3):
                found = [Plate(f"{letter}{number:02}P{each}", found=True, insured=True)]
                trail.append(look_up(plates=found, user="ann", reason="THEFT"))
            found_by = Criteria(plate=f"{letter}{number:02}P0")
            trail.append(look_up(plates=[], operation="search", criteria=found_by))

    def prune(self, directory: Path, hours: float, **options: Any) -> list[str]:
        """Remove what is older than some hours, as an operator does."""
        before = time_of(int(self.clock.now_ns - hours * HOUR_NS))
        return prune(directory, KEEP, before=before, **options).segments

    def _fill(self, hours: int) -> None:
        for _ in range(hours):
            number = len(self.names) + 1 if self.trail.exists() else 1
            self.append(self.trail, number)
            self.clock.pass_hours(1)
            seal(self.trail, current=False)

    def _keep(self) -> None:
        self.kept_lines.append(str(latest(self.trail)))


class Root:
    """A copy of the trail that somebody changes who may do and knows everything."""

    def __init__(self, original: Original, directory: Path) -> None:
        self.original, self.directory = original, directory / "audit"
        copy(original.trail, self.directory)
        self.chain, self.owner = self.directory / "chain.ndjson", self.directory / "owner.json"
        self.index = self.directory / "index"
        self.clock = original.clock
        self.clock.now_ns = original.now_ns
        self.names = original.names
        self.kept = [*original.kept_lines]
        """The lines that another machine has."""
        self.data_dir = directory
        self.old, self.young = self.at(-65), self.at(-40)
        """Times that are later than all that was sealed: KEEP and more ago, and less."""

    @classmethod
    def of(cls, original: Original, directory: Path, kind: Kind) -> Self:
        """Return a copy for a kind of tampering. It verifies."""
        root = cls(original, directory / kind.name.replace("/", " "))
        found = root.verify_at_night()
        assert (found.faults, len(found.notes), found.records) == ([], 1, 42)
        return root

    def path(self, number: int) -> Path:
        """Return the file of a segment."""
        return self.directory / f"{self.names[number - 1]}.ndjson"

    def verify_kept(self) -> Verdict:
        """Verify it with the digests that left the host."""
        return verify(self.directory, keep=KEEP, kept=self.kept_digests())

    def kept_digests(self) -> KeptDigests:
        """Return the digests that left the host."""
        return find_digests(["\n".join(self.kept).encode()])

    def verify_at_night(self) -> Verdict:
        """Verify it as every night: what was sound before and looks the same is not read."""
        verified = Verified.load(self.data_dir)
        found = verify(self.directory, keep=KEEP, verified=verified)
        verified.save(self.data_dir)
        return found

    # Files

    def rewrite(self, number: int, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes of a segment."""
        path = self.path(number)
        path.chmod(0o600)
        path.write_bytes(change(path.read_bytes()))

    def records(self, number: int, change: Callable[[list[bytes]], list[bytes]]) -> None:
        """Change the lines of a segment."""
        self.rewrite(number, lambda data: b"".join(change(data.splitlines(keepends=True))))

    def add(self, name: str, data: bytes) -> None:
        """Add a file to the trail."""
        (self.directory / name).write_bytes(data)

    def index_of(self, number: int) -> Path:
        """Return the file of the index that has the entries of a segment."""
        return self.index / f"{number:08}-{number:08}.0"

    def entries(self, number: int, change: Callable[[list[bytes]], list[bytes]]) -> None:
        """Change the entries of a segment in the index."""
        path, size = self.index_of(number), _ENTRY_BYTES
        data = path.read_bytes()
        found = [data[at : at + size] for at in range(size, len(data), size)]
        path.write_bytes(data[:size] + b"".join(change(found)))

    def replace_by(self, directory: Path) -> None:
        """Replace the trail by a copy of another directory."""
        shutil.rmtree(self.directory)
        copy(directory, self.directory)

    # The chain

    def lines(self, change: Callable[[list[bytes]], list[bytes]]) -> None:
        """Change lines of the chain as texts."""
        lines = change(self.chain.read_bytes().splitlines())
        self.chain.write_bytes(b"".join(line + b"\n" for line in lines))

    def line(self, number: int, old: bytes, new: bytes) -> None:
        """Replace a part of a line of the chain."""

        def replaced(lines: list[bytes]) -> list[bytes]:
            assert old in lines[number - 1]
            return [*lines[: number - 1], lines[number - 1].replace(old, new, 1), *lines[number:]]

        self.lines(replaced)

    def rebuild(self, change: Callable[[list[Line]], list[Line]]) -> None:
        """Change lines of the chain, and give all of them digests that fit."""
        previous, texts = NO_DIGEST, []
        for line in change(readable_lines(self.directory)):
            linked = msgspec.structs.replace(line, previous=previous)
            previous = digest_of(linked)
            texts.append(msgspec.json.encode(msgspec.structs.replace(linked, digest=previous)))
        self.chain.write_bytes(b"".join(text + b"\n" for text in texts))

    def member(self, number: int, **members: Any) -> None:
        """Change members of a line of the chain, and rebuild the chain."""
        self.rebuild(
            lambda lines: [
                msgspec.structs.replace(line, **members) if at == number else line
                for at, line in enumerate(lines, 1)
            ]
        )

    def seal(self) -> None:
        """Seal all that is not sealed."""
        seal(self.directory, current=True)

    def reseal(self) -> None:
        """Let chain and index say of each sealed segment what it has now, as if it always had."""
        shutil.rmtree(self.index)
        sealed = {each.segment for each in self.seals()}
        self.rebuild(lambda lines: [*map(self._resealed, lines)])
        there = [each for each in list_segments(self.directory) if each.name in sealed]
        complete_index(self.directory, there)

    def _resealed(self, line: Line) -> Line:
        if isinstance(line, Prune) or not (self.directory / f"{line.segment}.ndjson").exists():
            return line
        return msgspec.structs.replace(line, **self.told(line.segment))

    def told(self, name: str) -> dict[str, Any]:
        """Return what the line of a segment says of its content."""
        path = self.directory / f"{name}.ndjson"
        gathered = gather(path, segment_number(name), self.directory)
        times = {"first": gathered.first, "last": gathered.last}
        return times | {"index": gathered.entries.digest()} | digest_file(path)._asdict()

    def seals(self) -> list[Seal]:
        """Return the lines of sealed segments."""
        return [*seals_of(readable_lines(self.directory)).values()]

    def cut(self, length: int) -> None:
        """Remove the end of the trail: lines of the chain with their segments, and what is open."""
        self.lines(lambda texts: texts[:length])
        sealed = {each.segment for each in self.seals()}
        for each in list_segments(self.directory):
            if each.name not in sealed:
                self.path(each.number).unlink()
                self.index_of(each.number).unlink(missing_ok=True)

    # What the trail says about itself

    def record(
        self, operation: str, *, by: str = "bob", is_sealed: bool = True, **told: Any
    ) -> None:
        """Append a record of upkeep, as if a command had. Sealed, it is in segment 16."""
        with opened(self.directory) as trail:
            told_so = Upkeep(**told)
            trail.append(Record(time=self.at(0), operation=operation, upkeep=told_so, login=by))
        if is_sealed:
            self.seal()

    def pruned(self, *numbers: int, named: str = "", **members: Any) -> None:
        """Append a line of the chain that names segments, and remove them.

        Args:
            named: a name in place of those of the segments.
        """
        told = {"time": self.at(0), "before": self.old} | members
        segments = [named] if named else [self.names[number - 1] for number in numbers]
        self.rebuild(lambda lines: [*lines, Prune(segments=segments, previous="", **told)])
        for number in numbers:
            self.path(number).unlink()

    def recorded(self, *numbers: int, keep: str = KEEP, **members: Any) -> None:
        """Remove segments with a line 18 of the chain, after a record of that was sealed."""
        self.record("prune", keep=keep, before=members.get("before", self.old))
        self.pruned(*numbers, **members)

    def sealed(self, name: str, **members: Any) -> None:
        """Append a line 15 of the chain that seals a file, with its entries in the index."""
        told = self.told(name) | members
        line = Seal(time=self.at(0), segment=name, previous="", **told)
        self.rebuild(lambda lines: [*lines, line])

    def before_of(self, number: int) -> str:
        """Return before which time a line of the chain removed segments."""
        line = readable_lines(self.directory)[number - 1]
        assert isinstance(line, Prune)
        return line.before

    def at(self, hours: float | str) -> str:
        """Return the time that is some hours after now; a text as it is."""
        if isinstance(hours, str):
            return hours
        return time_of(int(self.clock.now_ns + hours * HOUR_NS))


def copy(source: Path, target: Path) -> None:
    """Copy a trail. PERF: shutil takes three times as long."""
    for directory in (source, source / "index"):
        new = target / directory.relative_to(source)
        new.mkdir(parents=True)
        for each in os.scandir(directory):
            if each.is_file():
                path, found = new / each.name, each.stat()
                path.write_bytes(Path(each.path).read_bytes())
                # A later change has another time than this.
                os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@contextmanager
def built(directory: Path) -> Iterator[Original]:
    """Build the original, and keep its clock."""
    with pytest.MonkeyPatch.context() as patched:
        # PERF: power does not fail here.
        for name in ("fsync", "fdatasync"):
            patched.setattr(os, name, lambda _: None)
        # No file has its turn to be read again.
        turns = SimpleNamespace(crc32=lambda _: clock.now() // 86_400 + 15)
        patched.setattr("app.audit.verified.zlib", turns)
        time = Clock(patched)
        patched.setattr(clock, "now", lambda: time.now_ns // 10**9)
        yield Original(directory, time)
