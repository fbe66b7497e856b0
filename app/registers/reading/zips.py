"""The register files in a zip."""

import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from app.registers.formats.faults import FileFault
from app.registers.reading.dated_names import in_order_of_dates
from app.registers.reading.streams import printable, raising_file_faults

ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""What a zip begins with."""
_DATA_ENDINGS = (".csv", ".tsv", ".json", ".ndjson", ".jsonl")
_IS_ENCRYPTED = 0x1
_NAMES_SHOWN = 5


def open_zip_members(file: BinaryIO, path: str) -> Iterator[tuple[str, BinaryIO, zipfile.ZipInfo]]:
    """Yield the name, the stream and the entry of each data member.

    Members with dates in their names come in the order of the dates, others in that of the
    directory. Raises FileFault.
    """
    with raising_file_faults(path):
        archive = zipfile.ZipFile(file)
    with archive:
        for info in _data_members(archive.infolist(), path):
            name = printable(f"{path}: {info.filename}")
            if info.flag_bits & _IS_ENCRYPTED:
                raise FileFault("The member is encrypted.", name)
            with raising_file_faults(name):
                member = archive.open(info)
            with member:
                yield name, cast(BinaryIO, member), info


def unpacked_zip_bytes(file: BinaryIO, path: str, packed_magic: bytes) -> int | None:
    """Return how many bytes the data members have in all.

    None if one of them begins with `packed_magic`: then the directory has its packed size only.
    Raises FileFault, and what the zip raises.
    """
    with zipfile.ZipFile(file) as archive:
        infos = _data_members(archive.infolist(), path)
        starts = (archive.open(info).read(len(packed_magic)) for info in infos)
        is_known = all(start != packed_magic for start in starts)
    return sum(info.file_size for info in infos) if is_known else None


def _data_members(infos: list[zipfile.ZipInfo], path: str) -> list[zipfile.ZipInfo]:
    """Choose the data members by the ends of their names, or the only member whatever its name.

    SEC: a name only chooses and is shown; it is never a path.
    """
    files = [info for info in infos if not _is_ignored(info.filename)]
    data = [
        info for info in files if info.filename.lower().removesuffix(".gz").endswith(_DATA_ENDINGS)
    ]
    if not data and len(files) == 1:
        return files
    if not data:
        shown = ", ".join(printable(info.filename) for info in files[:_NAMES_SHOWN])
        endings = ", ".join(_DATA_ENDINGS)
        raise FileFault(
            f"The zip has no member that ends in {endings}, with or without .gz. "
            f"It has {len(files)} files{': ' if shown else ''}{shown}.",
            printable(path),
        )
    return in_order_of_dates(data, lambda info: info.filename)


def _is_ignored(member_name: str) -> bool:
    *folders, name = member_name.replace("\\", "/").split("/")
    return not name or name.startswith(".") or "__MACOSX" in folders
