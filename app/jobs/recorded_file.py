"""Writes a file of plates, which the audit trail has before anybody can read them (D125, D188)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, BinaryIO

import msgspec

from app import clock
from app.audit.hosts import require_off
from app.audit.owner import require_own
from app.audit.record import Plate, Record, time_of
from app.audit.trail import Trail, durable
from app.config import Config
from app.jobs.results import BYTE_ORDER_MARK, LimitedFile
from app.storage.engine import Engine
from app.storage.versions import database_id

Write = Callable[[str], object]
Note = Callable[..., object]
"""Records plates; takes members of the record that differ from piece to piece."""


@contextmanager
def recorded_file(
    engine: Engine, config: Config, said: Record | None, file: BinaryIO, way_out: str
) -> Iterator[tuple[Write, Note]]:
    """Begin a CSV file; yield a function that writes text to it, and one that records plates.

    Args:
        said: what all records of the file have in common; None to record nothing, of a sandbox.
        way_out: what the person can do if there is no room for the file.

    Raises AuditError, also within the context, if the plates cannot be recorded.
    """
    opened: AbstractContextManager[Trail | None] = nullcontext()
    if said is not None and config.audit:
        owner = require_own(config.audit_dir, database_id(engine))
        opened = durable(config.audit_dir, owner)
    elif said is not None:
        require_off(engine)
    limited = LimitedFile(file, way_out)
    limited.write(BYTE_ORDER_MARK)
    with opened as trail:

        def note(plates: list[Plate], **members: Any) -> None:
            if trail is not None and said is not None:
                now = time_of(clock.now_ns())
                trail.append(msgspec.structs.replace(said, time=now, plates=plates, **members))

        yield lambda text: limited.write(text.encode()), note
