"""Runs each load in a process of its own, so that a killed load does not end the command."""

import logging
import os
import signal
from contextlib import nullcontext
from typing import Any, BinaryIO, Literal

import msgspec

from app.cli import loads
from app.errors import Hindered, OperatorError
from app.processes import ForkedWorker
from app.registers.attempts import Attempt
from app.registers.request import LoadRequest, LoadResult
from app.registers.space import TooLittleSpace
from app.storage.interface import Waiting

_log = logging.getLogger("app.cli.load_process")


class Ended(msgspec.Struct, frozen=True):
    """How a load ended: `failed` because of its files, or `hindered` by anything else."""

    status: Literal["loaded", "failed", "hindered"]
    reason: str | None = None
    message: str | None = None
    """The reason, and more that only a person should see."""
    details: dict[str, Any] = {}
    """Further members of the JSON document that reports the failure."""
    result: LoadResult | None = None
    needed: tuple[str, int] | None = None
    """A directory with too little space for the load, and how many bytes it needs there."""


class LoadProcess:
    """Runs loads one after another, each in a child process.

    Args:
        waiting: tells the user what a load waits for.
    """

    def __init__(self, waiting: Waiting = nullcontext) -> None:
        self._waiting = waiting
        self.is_stopped = False
        self._child: ForkedWorker | None = None

    def run(self, request: LoadRequest) -> Ended:
        """Run a load and return how it ended."""
        source, target = os.pipe()
        with open(source, "rb") as reading:
            with open(target, "wb") as writing:
                self._child = ForkedWorker(
                    lambda: _work(request, self._waiting, writing), [writing]
                )
                if self.is_stopped:  # The signal arrived before the child existed.
                    self._child.stop()
            written = reading.read()
            self._child.wait()
        if written:
            return msgspec.json.decode(written, type=Ended)
        status: Literal["failed", "hindered"] = "hindered" if self.is_stopped else "failed"
        return Ended(status, "the process of the load was killed")

    def stop(self) -> None:
        """End the running load and refuse all later ones; the register stays as it was."""
        self.is_stopped = True
        if self._child is not None:
            self._child.stop()


def _work(request: LoadRequest, waiting: Waiting, writing: BinaryIO) -> None:
    """Run a load in the child process, and write how it ended to the parent."""
    # The terminal sends Ctrl-C to all processes, but only the parent may stop this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with writing:
        writing.write(msgspec.json.encode(_ended(request, waiting)))


def _ended(request: LoadRequest, waiting: Waiting) -> Ended:
    attempt = Attempt(request)
    try:
        return Ended("loaded", result=loads.run(request, attempt, waiting))
    except KeyboardInterrupt:
        return Ended("hindered", "interrupted", details=attempt.details())
    except OperatorError as error:
        status: Literal["failed", "hindered"]
        status = "hindered" if isinstance(error, Hindered) else "failed"
        needed = None
        if isinstance(error, TooLittleSpace):
            needed = (str(error.directory), error.needed_bytes)
        return Ended(status, error.sentence, str(error), dict(error.details), needed=needed)
    except Exception as error:
        # SEC: only the stack is logged, because the message can quote a record.
        _log.exception("unexpected %s", type(error).__name__)
        reason = f"the load failed: {type(error).__name__}"
        return Ended("failed", reason, details=attempt.details())
