"""Creating directories that other users cannot read, and naming the user who needs them."""

import os
import pwd
from pathlib import Path

_MODE = 0o750


def make_directory(path: Path) -> None:
    """Create a directory and its parents if they are missing, with mode 0750, whatever the umask.

    Raises OSError.
    """
    if not path.parent.exists():
        # SEC: Path.mkdir(parents=True) would create these with the mode of the umask.
        make_directory(path.parent)
    path.mkdir(mode=_MODE, exist_ok=True)


def user_name() -> str:
    """Return the name of the user of this process, or the number of one without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
