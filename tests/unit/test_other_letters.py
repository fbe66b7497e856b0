"""Plates in Cyrillic or Greek letters that a register has in Latin letters, too."""

import pytest

from app.registers import modes
from app.registers.reading import sorted_runs
from tests.conftest import STORAGE, World
from tests.rows import each_row

LATIN = ("AA1234BB", "XY12", "FORD1")
CYRILLIC = ("\u0410\u04101234\u0412\u0412", "\u0425\u042312", "\u0416\u0416123")
"""The same as the first two, and one that Latin letters cannot write."""
NOTE = "in Cyrillic or Greek letters, and in the files or a register in the Latin letters"


@pytest.fixture
def noted(world: World):
    """Load plates, and return the note on two scripts."""

    def run(plates, *, register="native", kind="vehicles", mode="merge"):
        file = world.directory / f"{register}.csv"
        header, row = {
            "vehicles": ("registration,make\n", "{},FORD\n"),
            "policies": (
                "registration,number,validFrom,validTo\n",
                "{},1,2026-01-01,2099-12-31\n",
            ),
        }[kind]
        file.write_text(header + "".join(map(row.format, plates)), encoding="utf-8")
        notes = world.load_files(file, register=register, mode=mode).notes
        return [note for note in notes if NOTE in note]

    return run


@STORAGE
class TestNote:
    @each_row("kind", ["vehicles", "policies"])
    def test_of_another_register(self, noted, kind) -> None:
        """The number of plates that any register has in Latin letters."""
        assert noted(LATIN, register=f"latin_{kind}", kind=kind) == []
        (note,) = noted(CYRILLIC)
        assert note.startswith("2 plates of these files are")

    def test_of_the_register_itself(self, noted) -> None:
        """A merge into one with these plates, and one without."""
        assert noted([*LATIN, CYRILLIC[2]]) == []
        assert noted(CYRILLIC[:1])[0].startswith("1 plate of these files is")

    @each_row("mode", ["merge", "replace"])
    def test_of_the_files_themselves(self, noted, mode) -> None:
        """A first load that has them in both, and then a replace that cures it."""
        (note,) = noted([*LATIN, *CYRILLIC], register=mode, mode=mode)
        assert note.startswith("2 plates of these files are")
        assert noted([LATIN[2], *CYRILLIC], register=mode, mode="replace") == []

    def test_both_halves_of_a_replace(self, noted, monkeypatch) -> None:
        """The plates of a half that another process writes count, too."""
        monkeypatch.setattr(modes, "CORES", 2)
        monkeypatch.setattr(sorted_runs.Runs, "middle", lambda _: "M\1")
        noted(LATIN)
        monkeypatch.setattr(sorted_runs.Runs, "middle", lambda runs: runs._spill() or "M\1")
        assert noted([*LATIN, *CYRILLIC], mode="replace")[0].startswith("2 plates")
