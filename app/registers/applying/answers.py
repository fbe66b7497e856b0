"""What is counted of the answers that a load changes: which vehicles become insured, or compliant.

Counts are of final answers over all registers, and both sides are judged on the same day.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

from app.registers.applying.parts import PlateAnswer, PlatePart

_INSURERS_MAX = 1_000
"""The insurers that are counted by name; the others are counted together, with an empty name."""
ANSWERS = PlateAnswer._fields
_FOLLOWED_MAX = 50_000
"""How many policies and fines are followed from plate to plate; of more, a share of them is."""


class LoadBasis(NamedTuple):
    """By what both sides of a load are judged."""

    day: str
    """ISO date on which the load began."""
    order: tuple[str, ...] = ()
    """The names of registers in the order of precedence."""
    mot_first_years: Mapping[str, int] = {}
    """Years after first registration before an MOT is due, by register."""


class Turned(NamedTuple):
    """How many plates have a good answer that they did not have before, and the opposite."""

    gained: int = 0
    lost: int = 0

    def plus(self, gained: int, lost: int) -> "Turned":
        """Return the sum of both."""
        return Turned(self.gained + gained, self.lost + lost)


class Moves:
    """Counts the numbers that leave one plate and come to another.

    Memory is bounded: of many numbers, those with certain checksums stand for all.
    """

    def __init__(self) -> None:
        self._mask = 0
        self._left, self._came = set[int](), set[int]()

    def add(self, before: set[str], after: set[str]) -> None:
        """Add the numbers of a plate."""
        self.add_others(0, map(_checksum, before - after), map(_checksum, after - before))

    def add_others(self, mask: int, left: Iterable[int], came: Iterable[int]) -> None:
        """Add what another process counted, from `to_tuple`."""
        if mask > self._mask:
            self._thin_out(mask)
        kept = self._mask
        self._left.update(each for each in left if not each & kept)
        self._came.update(each for each in came if not each & kept)
        while max(len(self._left), len(self._came)) > _FOLLOWED_MAX:
            self._thin_out(self._mask * 2 + 1)

    def _thin_out(self, mask: int) -> None:
        self._mask = mask
        self._left = {each for each in self._left if not each & mask}
        self._came = {each for each in self._came if not each & mask}

    @property
    def count(self) -> int:
        """How many moved; an estimate if there are many."""
        return len(self._left & self._came) * (self._mask + 1)

    def to_tuple(self) -> tuple[int, set[int], set[int]]:
        """Return everything as a tuple, for `add_others`."""
        return self._mask, self._left, self._came


def _checksum(number: str) -> int:
    return crc32(number.encode())


class AnswerCounts:
    """How many answers of plates changed."""

    def __init__(self) -> None:
        self.plates = 0
        """Plates whose rows changed so that answers may differ."""
        self.left = 0
        """Plates that had a row in force of the load's kind in its register, and have none now."""
        self.answers = dict.fromkeys(ANSWERS, Turned())
        self.day_sooner = Counter[str]()
        """By answer: of the plates that lost it, those that did so only because an agency's last
        day is a day sooner."""
        self.insurers: dict[str, Turned] = {}
        """By insurer: how many plates it covers now and did not before, and how many of its plates
        are without cover now."""
        self.moves = Moves()
        self.unread: set[str] = set()
        """Registers that cannot be read: answers are counted without them."""

    def add(
        self, before: PlatePart, after: PlatePart, plates: int = 1, day_sooner: Collection[str] = ()
    ) -> None:
        """Count the answers about plates that have the same ones.

        Args:
            day_sooner: the checks whose last day was the day of the load, and is the day before.
        """
        for name, was, is_now in zip(ANSWERS, before.answer, after.answer, strict=True):
            if was != is_now:
                self.answers[name] = self.answers[name].plus(is_now * plates, was * plates)
                if was and name in day_sooner:
                    self.day_sooner[name] += plates
        if before.insurer != after.insurer:
            self._add_insurer(after.insurer, gained=plates)
            self._add_insurer(before.insurer, lost=plates * (after.insurer is None))

    def _add_insurer(self, name: str | None, gained: int = 0, lost: int = 0) -> None:
        if name is not None and gained + lost:
            named = name if name in self.insurers or len(self.insurers) < _INSURERS_MAX else ""
            self.insurers[named] = self.insurers.get(named, Turned()).plus(gained, lost)

    def to_tuple(self) -> tuple[Any, ...]:
        """Return all counts as a tuple of plain values, for `add_others` in another process."""
        answers = {name: tuple(turned) for name, turned in self.answers.items()}
        insurers = {name: tuple(turned) for name, turned in self.insurers.items()}
        moves = self.moves.to_tuple()
        day_sooner, unread = dict(self.day_sooner), sorted(self.unread)
        return self.plates, self.left, answers, day_sooner, insurers, moves, unread

    def add_others(self, counts: tuple[Any, ...]) -> None:
        """Add the counts of another process for the same load."""
        plates, left, answers, day_sooner, insurers, moves, unread = counts
        self.unread.update(unread)
        self.day_sooner.update(day_sooner)
        self.plates += plates
        self.left += left
        for name, turned in answers.items():
            self.answers[name] = self.answers[name].plus(*turned)
        for name, turned in insurers.items():
            self._add_insurer(name, *turned)
        self.moves.add_others(*moves)
