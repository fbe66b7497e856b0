"""Creates directories that other users cannot read."""

from pathlib import Path

_MODE = 0o750


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents with mode 0750, less what the umask removes.

    Raises OSError.
    """
    if not path.parent.exists():
        # SEC: Path.mkdir(parents=True) would create the parents with the default mode.
        make_directory(path.parent)
    path.mkdir(mode=_MODE, exist_ok=True)
