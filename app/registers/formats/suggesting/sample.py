"""The beginning of a CSV file: its header and its first records."""

import io
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from app.registers.formats.delimited import DelimitedRecords
from app.registers.formats.encodings import require_encoding
from app.registers.formats.faults import FileFault
from app.registers.formats.format import IgnoringReport
from app.registers.formats.line_blocks import BYTE_ORDER_MARK
from app.registers.formats.separators import likely_separator
from app.registers.formats.suggesting import looks

SAMPLE_BYTES = 1024 * 1024
_RECORDS_MAX = 1_000
_SEPARATORS = ",;\t|"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Sample(NamedTuple):
    """The header of a CSV file and its first records, of at most `SAMPLE_BYTES`."""

    separator: str
    encoding: str | None
    """That of the file, if it was named."""
    is_utf8: bool
    """Whether no record was read as Windows-1252."""
    header: list[str]
    records: list[list[str]]

    def values(self, column: int) -> list[str]:
        """Return what is in a column, without empty fields."""
        return looks.present([record[column] for record in self.records])

    @property
    def has_header(self) -> bool:
        """Whether the first line holds names.

        SEC: otherwise it is a record, and its fields must not be shown as names.
        """
        named = [name for name in self.header if name.strip()]
        if 2 * len(named) < len(self.header):  # A title.
            return False
        if any(map(looks.is_value, self.header)):
            return False
        plates = [number for number, name in enumerate(self.header) if looks.is_plate(name)]
        # A name such as MOT2 can be a plate; but not above plates, or if nothing is below it.
        return not any(
            looks.plates(self.values(number)) > 1 - looks.MOST or not self.values(number)
            for number in plates
        )


def read_sample(data: bytes, encoding: str | None = None) -> Sample:
    """Return the sample of the first `SAMPLE_BYTES` of a file.

    Args:
        encoding: that of the file, if it is known.

    Raises FileFault if they are no CSV with a header, or not in this encoding.
    """
    if data.startswith(_UTF_16):
        raise FileFault("The file seems to be UTF-16; save it as UTF-8.")
    if b"\0" in data:
        raise FileFault("The file is no text: it has zero bytes.")
    require_encoding(data, encoding)
    text = data.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not text:
        raise FileFault("The file is empty.")
    if text.startswith((b"{", b"[")):
        raise FileFault("The file is JSON; mapping files are for CSV only.")
    if text.startswith(b"<"):
        raise FileFault("The file is XML or HTML; mapping files are for CSV only.")
    first_line = text.split(b"\n", 1)[0].decode("latin-1")
    separator = likely_separator(first_line, _SEPARATORS)
    if len(data) >= SAMPLE_BYTES:
        data = data[: data.rfind(b"\n") + 1] or data
    records = DelimitedRecords(io.BytesIO(data), IgnoringReport(), separator, encoding)
    rows: list[list[str]] = []
    # A last record that is cut off, or a quote that is open: the load reports that.
    with suppress(FileFault):
        for record in islice(records, _RECORDS_MAX):
            rows.append(list(record))  # type: ignore[arg-type] # read_block is not set
    is_utf8 = records.decoder.is_utf8
    return Sample(records.separator, encoding, is_utf8, records.header, rows)
