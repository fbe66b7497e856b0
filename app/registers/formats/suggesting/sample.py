"""The header and the first records of a CSV file, and what its columns look like."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice

from app.registers.formats.columns import Column as Native
from app.registers.formats.columns import FileFault, RowFault
from app.registers.formats.csv_format import DelimitedRecords, likely_separator
from app.registers.formats.date_forms import iso_day, likely_forms, timed_day
from app.registers.formats.dates import NO_END, OPEN_ENDS, ends_late
from app.registers.formats.encodings import is_utf_16
from app.registers.formats.mapped import folded_name
from app.registers.formats.native import SHAPES
from app.registers.formats.report import IgnoringReport
from app.registers.formats.suggesting.names import VAGUE, meanings
from app.registers.formats.values import AMOUNTS, NO, STATUSES, YES
from app.storage.tables import Shape
from app.vehicles.registration import canonical_registration

SAMPLE_BYTES = 1024 * 1024
_RECORDS_MAX = 1_000
_LINES_MAX = 20
_NAMES_MAX = 100
"""Where a header is looked for below a title."""
_MOST = 0.8
"""The share of values that must look alike."""
_CHARACTERS_MAX = 40
_SEPARATORS = ",;\t|"
_NO_CSV = {"{": "JSON", "[": "JSON", "<": "XML or HTML"}
_WORDS: Mapping[Shape, Mapping[str, bool | str]] = {
    Shape.FLAG: {word: word in YES for word in YES | NO},
    Shape.WORD: STATUSES,
}


def words_of(member: str) -> Mapping[str, bool | str]:
    """Return words that a load does not read in a member, and what they can mean."""
    if member == "validTo":
        return dict.fromkeys(OPEN_ENDS, NO_END)
    return _WORDS.get(SHAPES[member], {})


class Column:
    """A column of a CSV file."""

    def __init__(self, name: str, texts: list[str]) -> None:
        self.name = name
        self.texts = texts
        """The texts of all records, trimmed."""
        self.values = [text for text in texts if text.lower() not in OPEN_ENDS]
        """The texts that say something."""
        self.means = dict(meanings(name))
        """The members that its name can mean, and how sure that is."""

    @cached_property
    def forms(self) -> list[str]:
        """The likely form of its dates, and another one that fits as well; empty for others."""
        return likely_forms(list(map(_without_time, self.values)))

    @property
    def has_known_name(self) -> bool:
        """Whether its name is one of our words, neither a flag such as `insured` nor a value."""
        is_known = any(
            rank > VAGUE and SHAPES.get(member) != Shape.FLAG for member, rank in self.means.items()
        )
        return is_known and self.name not in self.values

    @property
    def has_times(self) -> bool:
        """Whether any value is a day with a time that is not midnight, without a zone."""
        timed = map(timed_day, self.values)
        return any(each and not (each.zone or each.is_midnight) for each in timed)

    @property
    def decimals(self) -> list[str]:
        """The decimal separator of its amounts, and another one that may be meant."""
        for separator, pattern in AMOUNTS.items():
            if _are_most([*map(pattern.fullmatch, self.values)]):
                # 1.200 can be read with a comma only, but need not be meant so.
                is_sure = separator == "." or any("," in each for each in self.values)
                return [separator] if is_sure else [",", "."]
        return []

    @property
    def form(self) -> str:
        """How most values are written, without their content: `DD.MM.YYYY` or `AA99AAA`."""
        most = Counter(map(form_of, self.values)).most_common(1)
        return [*self.forms, *(form for form, _ in most), ""][0]

    @property
    def are_distinct(self) -> bool:
        """Whether more than half of the texts differ from each other; `NA` can be a plate."""
        texts = [*filter(None, self.texts)]
        return 2 * len(set(texts)) > len(texts)

    def fits(self, native: Native) -> bool:
        """Tell whether a load can read most values as a member; true if there are none."""
        shape, words = SHAPES[native.label], words_of(native.label)
        if not self.values:
            return True
        if shape == Shape.MONEY:
            return bool(self.decimals)
        # PERF: parsing texts that are no days takes 40 us each; 400 columns of them took 38 s.
        if self.forms or shape == Shape.DAY:
            return bool(self.forms) and shape in (Shape.DAY, Shape.TIME)
        return _are_most([each.lower() in words or can_read(native, each) for each in self.values])

    def can_be_key(self, native: Native) -> bool:
        """Tell whether the values alone make it a candidate for a member that each row needs."""
        shape = SHAPES[native.label]
        is_of_many = shape in (Shape.DAY, Shape.MONEY) or self.are_distinct
        is_like_it = shape != Shape.PLATE or _are_most([*map(_is_plate, self.values)])
        return bool(self.values) and is_of_many and is_like_it and self.fits(native)

    def is_day_after(self, begin: "Column") -> bool:
        """Tell whether most days can be the first day without, because they end late."""
        pairs = zip(begin.days, self.days, strict=True)
        return _are_most([ends_late(first, last) for first, last in pairs if first and last])

    @cached_property
    def days(self) -> list[str]:
        """The day of each record as YYYY-MM-DD; empty if it has none, or if no form is likely."""
        form = "".join(self.forms[:1])
        return [(form and iso_day(_without_time(text), form)) or "" for text in self.texts]


class Sample:
    """The beginning of a CSV file."""

    def __init__(self, data: bytes, encoding: str | None = None) -> None:
        """Read the first `SAMPLE_BYTES` of a file.

        Args:
            encoding: the encoding of the file, if it is named.

        Raises FileFault if they are no CSV, or not in this encoding.
        """
        if is_utf_16(data):
            raise FileFault("The file seems to be UTF-16; save it as UTF-8.")
        if len(data) >= SAMPLE_BYTES:
            # A letter of UTF-8 that is cut in two would be read as Windows-1252.
            data = data[: data.rfind(b"\n") + 1] or data
        text = data.decode(encoding or "utf-8", "replace").removeprefix("\ufeff")
        begin = text.lstrip()
        if other := _NO_CSV.get(begin[:1], "binary" if "\0" in text else ""):
            raise FileFault(f"The file is {other}; mapping files are for CSV only.")
        likely = likely_separator(begin.split("\n", 1)[0], _SEPARATORS)
        records = DelimitedRecords(io.BytesIO(data), IgnoringReport(), likely, encoding)
        rows: list[list[str]] = []
        # The load reports a last record that is cut off, and a quote that is open.
        with suppress(FileFault):
            for record in islice(records, _RECORDS_MAX):
                rows.append([str(field).strip() for field in record])
        self.separator = records.separator
        self.encoding = encoding
        self.is_utf8 = records.decoder.is_utf8
        """Whether no record was read as Windows-1252."""
        self.rows = len(rows)
        self._lines = text.split("\n", _LINES_MAX)[:_LINES_MAX]
        self.columns = [
            Column(name.strip(), [row[at] for row in rows])
            for at, name in enumerate(records.header)
        ]

    @property
    def named(self) -> list[Column]:
        """The columns that a mapping can name."""
        counts = Counter(folded_name(each.name) for each in self.columns)
        return [each for each in self.columns if each.name and counts[folded_name(each.name)] == 1]

    @cached_property
    def header_line(self) -> int:
        """The number of a line with two of our words, if the first line has none; 0 for no line."""
        if any(each.has_known_name for each in self.columns):
            return 0
        for number, line in enumerate(self._lines[1:], 2):
            names = line.split(likely_separator(line, _SEPARATORS))[:_NAMES_MAX]
            if sum(max(meanings(each).values(), default=0) > VAGUE for each in names) > 1:
                return number
        return 0

    @property
    def header_fault(self) -> str:
        """Why the first line holds no names, as sentences; empty if it does.

        SEC: then it is a title or a record, and its fields must not be shown as names. A name like
        a plate or a number is one only beside one of our words, and above values of another form.
        """
        told = "The first line does not look like names of columns."
        if self.header_line:
            return f"{told} Line {self.header_line} does: remove the lines above it."
        is_known = self.rows > 0 and any(each.has_known_name for each in self.columns)
        is_title = sum(bool(each.name) for each in self.columns) < len(self.columns) / 2
        doubtful = [each for each in self.columns if _is_plate(each.name) or _is_number(each.name)]
        is_record = any(form_of(each.name) in map(form_of, each.values) for each in doubtful)
        is_fault = is_title or is_record or (doubtful and not is_known)
        return f"{told} Make the names of the columns the first line." if is_fault else ""


def can_read(native: Native, text: str) -> bool:
    """Tell whether a load can read a text as a member, without a line for its word."""
    with suppress(RowFault):
        return native.parse(text) is not None
    return False


def form_of(text: str) -> str:
    """Return how a text is written, without its content: `AA99AAA`."""
    return "".join(
        "9" if each.isdigit() else each if not each.isalpha() else "a" if each.islower() else "A"
        for each in text[:_CHARACTERS_MAX]
        if each.isprintable()
    )


def _are_most(tests: Sequence[object]) -> bool:
    """Tell whether most tests of values are true; false if there are none."""
    return sum(map(bool, tests)) >= _MOST * len(tests) > 0


def _without_time(text: str) -> str:
    timed = timed_day(text)
    return timed.day if timed and not timed.zone else text


def _is_plate(text: str) -> bool:
    """Tell whether a text has letters and digits, and can be a registration."""
    plate = canonical_registration(text[:100]) or ""
    return any(map(str.isdigit, plate)) and any(map(str.isalpha, plate))


def _is_number(text: str) -> bool:
    """Tell whether a text has digits, and no letters: a number, a date or a time."""
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))
