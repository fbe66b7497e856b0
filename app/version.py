"""The version of this program, and the commit that it was built from."""

from importlib.resources import files
from typing import NamedTuple

VERSION = "1.0.0"  # setup.cfg reads it here.


class Revision(NamedTuple):
    """The commit that the program was built from, and its time."""

    commit: str
    """40 hexadecimal digits, with the suffix `-dirty` if files had uncommitted changes."""
    committed_at_epoch_seconds: int


def line() -> str:
    """Return what `verifyd --version` prints: `verifyd 1.0.0 (COMMIT)`.

    COMMIT has 12 digits, and the suffix `-dirty` if files had uncommitted changes. In a working
    copy, where the commit is not known, this is only `verifyd 1.0.0`.
    """
    made_from = revision()
    if made_from is None:
        return f"verifyd {VERSION}"
    digits, dash, dirty = made_from.commit.partition("-")
    return f"verifyd {VERSION} ({digits[:12]}{dash}{dirty})"


def revision() -> Revision | None:
    """Return the commit that the program was built from; None in a working copy.

    `git archive` and `make binary` write it into `commit.txt`.
    """
    commit, _, epoch_seconds = files(__package__).joinpath("commit.txt").read_text().partition(" ")
    if commit.startswith("$"):  # the placeholder that git archive replaces
        return None
    return Revision(commit, int(epoch_seconds))
