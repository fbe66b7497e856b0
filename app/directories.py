"""How directories are made that are nobody else's to look into."""

from pathlib import Path

_MODE = 0o750


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, unless they are there: mode 0750, whatever the umask.

    Raises OSError.
    """
    if not path.parent.exists():
        # SEC: Path.mkdir(parents=True) makes these as the umask says, for everybody.
        make_directory(path.parent)
    path.mkdir(mode=_MODE, exist_ok=True)
