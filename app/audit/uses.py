"""Records searches, exports and reports of the trail before they show anything (D118)."""

from pathlib import Path

from app.audit.owner import Owner
from app.audit.record import Record
from app.audit.trail import Trail


def record_use(directory: Path, owner: Owner, record: Record) -> None:
    """Append a record to a trail, and write it to disk. Raises AuditError."""
    trail = Trail(directory, lambda: owner)
    try:
        trail.append(record)
        trail.sync()
    finally:
        trail.close()
