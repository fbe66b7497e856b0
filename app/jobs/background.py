"""Starts commands of this program that outlive the request, the worker and the browser (D135)."""

import os
import subprocess
import sys

_SHELL = ("/bin/sh", "-c", '"$@" &', "sh")
"""The shell ends at once, so that init adopts the command, and no worker has to wait for it."""


def start(*arguments: str, kept: int) -> None:
    """Start a command with the settings and the user of this process.

    Args:
        kept: a descriptor that stays open in the command.

    Raises OSError.
    """
    is_binary = getattr(sys, "frozen", False)
    program = [sys.executable] if is_binary else [sys.executable, "-m", "app"]
    # The binary unpacks itself again: the directory of the service ends with the service.
    environ = {**os.environ, "PYINSTALLER_RESET_ENVIRONMENT": "1"}
    subprocess.run(  # noqa: S603 - our own program, with arguments that the caller makes
        [*_SHELL, *program, *arguments],
        check=False,
        pass_fds=[kept],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environ,
        start_new_session=True,
    )
