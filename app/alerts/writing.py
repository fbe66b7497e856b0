"""Whether the database can be written to. Look-ups work without, so nothing else shows it (D58)."""

import os

from app.storage.disk import free_bytes_of, size_text
from app.storage.engine import Engine

_LITTLE_BYTES = 1024 * 1024
"""What the log of the database may soon need."""


def write_fault(engine: Engine) -> str | None:
    """Return a sentence for the operator if domains cannot be created, now or soon; otherwise None.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    refusal = engine.write_refusal()
    if refusal is not None:
        return f"The database cannot be written to: {refusal}."
    if engine.file is not None:
        directory = engine.file.absolute().parent
        free_bytes = free_bytes_of(os.statvfs(directory))
        if free_bytes < _LITTLE_BYTES:
            return f"The disk of {directory} is full: {size_text(free_bytes)} are free."
    return None
