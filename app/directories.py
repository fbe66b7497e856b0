"""Creates directories that other users cannot read, and names the user of this process."""

import os
import pwd
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


def user_name() -> str:
    """Return the name of the user of this process, or the number of one without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
