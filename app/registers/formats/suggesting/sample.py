"""The beginning of a CSV file: its header and its first records."""

import io
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from app.registers.formats.delimited import DelimitedRecords
from app.registers.formats.faults import FileFault
from app.registers.formats.format import IgnoringReport
from app.registers.formats.line_blocks import BYTE_ORDER_MARK
from app.registers.formats.suggesting import looks

SAMPLE_BYTES = 1024 * 1024
_RECORDS_MAX = 1_000
_SEPARATORS = ",;\t|"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Sample(NamedTuple):
    """The header of a CSV file and its first records, of at most `SAMPLE_BYTES`."""

    separator: str
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
        # A title, or the line by which Excel learns the separator.
        if 2 * len(named) < len(self.header) or self.header[0].lower().startswith("sep="):
            return False
        if any(map(looks.is_value, self.header)):
            return False
        plates = [number for number, name in enumerate(self.header) if looks.is_plate(name)]
        # A name such as MOT2 can be a plate; but not above plates, or if nothing is below it.
        return not any(
            looks.plates(self.values(number)) > 1 - looks.MOST or not self.values(number)
            for number in plates
        )


def read_sample(data: bytes) -> Sample:
    """Return the sample of the first `SAMPLE_BYTES` of a file.

    Raises FileFault if they are no CSV with a header.
    """
    if data.startswith(_UTF_16):
        raise FileFault("The file seems to be UTF-16; save it as UTF-8.")
    if b"\0" in data:
        raise FileFault("The file is no text: it has zero bytes.")
    text = data.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not text:
        raise FileFault("The file is empty.")
    if text.startswith((b"{", b"[")):
        raise FileFault("The file is JSON; mapping files are for CSV only.")
    if text.startswith(b"<"):
        raise FileFault("The file is XML or HTML; mapping files are for CSV only.")
    separator = _separator_of(data)
    if len(data) >= SAMPLE_BYTES:
        data = data[: data.rfind(b"\n") + 1] or data
    records = DelimitedRecords(io.BytesIO(data), IgnoringReport(), separator)
    rows: list[list[str]] = []
    # A last record that is cut off, or a quote that is open: the load reports that.
    with suppress(FileFault):
        for record in islice(records, _RECORDS_MAX):
            rows.append(list(record))  # type: ignore[arg-type] # read_block is not set
    return Sample(separator, records.header, rows)


def _separator_of(data: bytes) -> str:
    """Return the most frequent separator of the first line, outside of quotes."""
    line = data.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n").split(b"\n", 1)[0]
    text = line.decode("latin-1")
    unquoted = "".join(text.split('"')[::2])
    return max(_SEPARATORS, key=unquoted.count)
