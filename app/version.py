"""Which program this is: its version, and the commit it was made from."""

from importlib.resources import files
from typing import NamedTuple

VERSION = "0.1.0"  # setup.cfg reads it here.


class Revision(NamedTuple):
    """The commit the program was made from, and when that was made."""

    commit: str
    """40 hexadecimal digits; `-dirty` behind them if files were changed since."""
    committed_at_epoch_seconds: int


def line() -> str:
    """Return what `verifyd --version` prints: `verifyd 0.1.0 (COMMIT)`.

    COMMIT has 12 digits, with `-dirty` if files were changed since. A working copy has none.
    """
    made_from = revision()
    if made_from is None:
        return f"verifyd {VERSION}"
    digits, dash, dirty = made_from.commit.partition("-")
    return f"verifyd {VERSION} ({digits[:12]}{dash}{dirty})"


def revision() -> Revision | None:
    """Return the commit, or None in a working copy, where `git` tells more than we could.

    `git archive` writes it into `commit.txt`, and so does `make binary`.
    """
    commit, _, epoch_seconds = files(__package__).joinpath("commit.txt").read_text().partition(" ")
    if commit.startswith("$"):  # as it stands in the repository
        return None
    return Revision(commit, int(epoch_seconds))
