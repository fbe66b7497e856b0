"""Opens the register files in a zip."""

import zipfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from app.registers.formats.faults import FileFault
from app.registers.reading.dated_names import sorted_by_date
from app.registers.reading.streams import printable, raising_file_faults

ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""The first bytes of a zip."""
_DATA_ENDINGS = (".csv", ".tsv", ".json", ".ndjson", ".jsonl")
_IS_ENCRYPTED = 0x1
_WORKBOOK = "xl/workbook.xml"
"""The member of every Excel workbook."""
_NAMES_SHOWN = 5


def open_zip_members(file: BinaryIO, path: str) -> Iterator[tuple[str, BinaryIO, zipfile.ZipInfo]]:
    """Yield the name, the stream and the directory entry of each data member of a zip.

    Members of the DVSA come sorted by the date in their names, others in the order of the zip.
    Raises FileFault.
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
    """Return the total size of the data members.

    Return None if any of them begins with `packed_magic`, because the zip then has only its
    compressed size. Raises FileFault and CONTAINER_FAULTS.
    """
    with zipfile.ZipFile(file) as archive:
        infos = _data_members(archive.infolist(), path)
        starts = (archive.open(info).read(len(packed_magic)) for info in infos)
        is_known = all(start != packed_magic for start in starts)
    return sum(info.file_size for info in infos) if is_known else None


def _data_members(infos: list[zipfile.ZipInfo], path: str) -> list[zipfile.ZipInfo]:
    """Return the members whose names end like data files, or the only member if there is just one.

    SEC: a name is only compared and shown. It is never used as a path.
    """
    files = [info for info in infos if not _is_ignored(info.filename)]
    data = [
        info for info in files if info.filename.lower().removesuffix(".gz").endswith(_DATA_ENDINGS)
    ]
    if not data and len(files) == 1:
        return files
    if not data and any(info.filename == _WORKBOOK for info in files):
        raise FileFault("The file is an Excel workbook; save it as CSV.", printable(path))
    if not data:
        shown = ", ".join(printable(info.filename) for info in files[:_NAMES_SHOWN])
        endings = ", ".join(_DATA_ENDINGS)
        raise FileFault(
            f"The zip has no member that ends in {endings}, with or without .gz. "
            f"It has {len(files)} files{': ' if shown else ''}{shown}.",
            printable(path),
        )
    return sorted_by_date(data, lambda info: info.filename)


def _is_ignored(member_name: str) -> bool:
    *folders, name = member_name.replace("\\", "/").split("/")
    return not name or name.startswith(".") or "__MACOSX" in folders
