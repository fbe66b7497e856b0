"""How much room a disk has."""

import os


def free_bytes_of(found: os.statvfs_result) -> int:
    """Return how many bytes of a file system are free for users without privileges."""
    return found.f_bavail * found.f_frsize


def size_text(size_bytes: int) -> str:
    """Return a number of bytes for a person to read, such as `1.2 MB`."""
    for unit, unit_bytes in (("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:,.1f} {unit}"
    return f"{size_bytes / 1000:,.0f} kB"
