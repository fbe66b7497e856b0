"""Writes a file of plates, which the audit trail has before anybody can read them (D125, D188)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, BinaryIO

from app.audit.recording import Recording, owner_for_task, recording
from app.config import Config
from app.jobs.results import BYTE_ORDER_MARK, LimitedFile
from app.storage.engine import Engine

Write = Callable[[str], object]
Note = Callable[..., object]
"""Records plates; takes members of the record that differ from piece to piece."""


@contextmanager
def recorded_file(
    engine: Engine, config: Config, said: Mapping[str, Any] | None, file: BinaryIO, way_out: str
) -> Iterator[tuple[Write, Note]]:
    """Begin a CSV file; yield a function that writes text to it, and one that records plates.

    Args:
        said: the members that all records of the file have in common; None to record nothing, of a
            sandbox.
        way_out: what the person can do if there is no room for the file.

    Raises AuditError, also within the context, if the plates cannot be recorded.
    """
    opened: AbstractContextManager[Recording] = nullcontext(Recording(None, {}))
    if said is not None:
        opened = recording(engine, config, said, owner_for_task)
    limited = LimitedFile(file, way_out)
    with opened as recorded:
        limited.write(BYTE_ORDER_MARK)
        yield lambda text: limited.write(text.encode()), recorded.record
