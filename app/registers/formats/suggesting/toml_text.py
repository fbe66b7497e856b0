"""A suggestion as the text of a mapping file, with comments on doubtful lines."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from app.registers.formats.native import SHAPES
from app.registers.formats.suggesting import names
from app.registers.formats.suggesting.suggestion import Suggestion
from app.storage.tables import Kind, Shape

_TO_COMPLETE = "complete this line: every row needs it"
_UNUSED_MAX = 200
_WORDS_MAX = 20
_CONSTANTS = {
    Kind.POLICIES: ("insurer", '"Example Insurance"'),
    Kind.FINES: ("currency", '"EUR"'),
}
"""The member that is often the same in all rows of a kind, and an example."""
_FIRST_DAYS_WITHOUT = {
    "motExpiry": ("the RDW", ("vervaldatum", "apk")),
    "taxDue": ("the DVLA", ("tax", "due", "date")),
}
"""By member the agency that writes the first day without (D100), and words in its column's name."""


class MappingText(NamedTuple):
    """The text of a mapping file."""

    text: str
    lines_to_complete: dict[str, int]
    """The numbers of the lines without which it cannot be used, by member."""


def mapping_text(found: Suggestion, file: str, register: str, command: str) -> MappingText:
    """Return a mapping file; `read_mapping` accepts it unless there are lines to complete.

    SEC: it has names of columns and known words, but no other value of the file.

    Args:
        file: how the file is named in comments.
        register: the register that it names.
        command: the line for a shell that loads the file with this mapping.
    """
    lines = list(_lines(found, file, register, command))
    to_complete = {
        member: number
        for number, line in enumerate(lines, 1)
        for member in found.missing
        if line.startswith(f"{member} = ")
    }
    return MappingText("\n".join(lines) + "\n", to_complete)


def _lines(found: Suggestion, file: str, register: str, command: str) -> Iterator[str]:
    rows = len(found.sample.records)
    sampled = {0: "its header: it has no rows", 1: "its only row"}.get(
        rows, f"its first {rows:,} rows"
    )
    forms = _date_forms(found)
    remarks = forms.remarks
    yield f"# A first mapping for {_quoted(file)}, from {sampled}. Check each line."
    yield "# Then try it. This reads the whole file, and changes nothing:"
    yield f"#   {command} --dry-run"
    yield "# If the counts and notes are right, load the file:"
    yield f"#   {command}"
    yield _commented(f'kind = "{found.kind}"', "" if found.is_kind_sure else "not sure")
    yield _commented(f'register = "{register}"', "any name; one for each source")
    yield f"delimiter = {_quoted(found.sample.separator)}"
    if found.sample.encoding:
        yield f"encoding = {_quoted(found.sample.encoding)}"
    elif not found.sample.is_utf8:
        yield "# The file is not UTF-8. Unless it is windows-1252, make the mapping again with"
        yield "# its encoding, because names of columns depend on it: --encoding windows-1250"
    if forms.common is not None:
        yield _commented(f'date_format = "{forms.common}"', remarks.pop("", ""))
    yield from _decimal(found)
    yield ""
    yield "[columns]"
    for member in found.missing:
        yield _commented(f'{member} = ""', _TO_COMPLETE + _or_else(member))
    for member, guess in found.guesses.items():
        name = _quoted(found.sample.header[guess.column])
        remark = "; ".join(
            filter(
                None,
                [
                    guess.remark,
                    remarks.get(member),
                    _value_remark(found, member),
                    _day_remark(found, member),
                ],
            )
        )
        yield _commented(f"{member} = {name}", remark)
    if forms.other:
        yield ""
        yield _commented("[date_formats]", "the dates of these members have another form")
        yield from (f'{member} = "{form}"' for member, form in forms.other.items())
    yield from _constants(found)
    yield from _words(found)
    yield from _unused(found)


def _or_else(member: str) -> str:
    if member == "registration":
        return ""
    return ", or settledOn" if member == "amount" else ", or move it to [constants]"


def _decimal(found: Suggestion) -> Iterator[str]:
    if "amount" not in found.guesses:
        return
    values = found.sample.values(found.guesses["amount"].column)
    if names.decimal(values) == ",":
        is_sure = any("," in each for each in values)
        yield _commented('decimal = ","', "" if is_sure else "not sure: no amount has a comma")


class _DateForms(NamedTuple):
    """The forms of the dates of a file."""

    common: str | None
    """The form of most columns; None if no column has dates that a mapping can read."""
    other: dict[str, str]
    """The forms of the other columns, by member."""
    remarks: dict[str, str]
    """Remarks by member; the one on the common form has no name."""


def _date_forms(found: Suggestion) -> _DateForms:
    remarks: dict[str, str] = {}
    forms: dict[str, names.Dates] = {}
    for member, guess in found.guesses.items():
        shape = SHAPES.get(member)
        if shape not in (Shape.DAY, Shape.TIME):
            continue
        dates = names.dates(found.sample.values(guess.column))
        if shape == Shape.TIME and (dates is None or dates.form is None):
            continue  # Times, which are read without a form.
        if dates is None:
            remarks[member] = "no values among these rows"
        elif dates.form is None:
            remarks[member] = "no mapping can read its dates, such as D.M.YY or one with a time"
        else:
            forms[member] = dates
    if not forms:
        return _DateForms(None, {}, remarks)
    # A column in which only one form fits decides for columns in which two forms fit.
    sure = Counter(each.form for each in forms.values() if not each.other)
    counts = sure or Counter(each.form for each in forms.values())
    # Of two equally frequent forms, the one with days: mostly only one column has months.
    common = max(counts, key=lambda form: (counts[form], "D" in str(form)))
    others = {member: each for member, each in forms.items() if common not in each}
    if not sure:
        remarks[""] = f"not sure: could be {next(each.other for each in forms.values())}"
    return _DateForms(common, {member: str(each.form) for member, each in others.items()}, remarks)


def _value_remark(found: Suggestion, member: str) -> str:
    has_values = found.sample.values(found.guesses[member].column)
    return "" if has_values or SHAPES.get(member) == Shape.DAY else "no values among these rows"


def _day_remark(found: Suggestion, member: str) -> str:
    agency, words = _FIRST_DAYS_WITHOUT.get(member, ("", ()))
    name = found.sample.header[found.guesses[member].column].lower()
    is_meant = agency and all(word in name for word in words)
    return f"read as the last day with; {agency} writes the day after" if is_meant else ""


def _constants(found: Suggestion) -> Iterator[str]:
    member, value = _CONSTANTS.get(found.kind, ("", ""))
    if member and member not in found.guesses:
        yield ""
        yield "# [constants]                # a value that is the same in every row"
        yield f"# {member} = {value}"


def _words(found: Suggestion) -> Iterator[str]:
    for member, guess in found.guesses.items():
        is_flag, is_status = SHAPES.get(member) == Shape.FLAG, member == "taxStatus"
        if not is_flag and not is_status:
            continue
        values = found.sample.values(guess.column)
        words = names.words(values, is_flag=is_flag)
        if not words.known and not words.others:
            continue
        yield ""
        yield _commented(f"[words.{member}]", _other_words(words, is_flag=is_flag))
        for word, ours in list(words.known.items())[:_WORDS_MAX]:
            yield f"{_quoted(word)} = {ours}"


def _other_words(words: names.Words, *, is_flag: bool) -> str:
    """Return advice for unknown words; empty if all words are known."""
    if not words.others:
        return ""
    other = "1 other word" if words.others == 1 else f"{words.others:,} other words"
    rows = "1 row" if words.rows == 1 else f"{words.rows:,} rows"
    ours = "true or false" if is_flag else '"taxed", "exempt", "sorn" or "untaxed"'
    return f'{other} in {rows}: add lines here, "WORD" = {ours}'


def _unused(found: Suggestion) -> Iterator[str]:
    unused = found.unused
    if not unused:
        return
    yield ""
    yield "# Columns that are not read:"
    for number in unused[:_UNUSED_MAX]:
        name = found.sample.header[number].strip()
        shown = _quoted(found.sample.header[number]) if name else f"column {number + 1}"
        yield f"#   {shown}: {found.reasons[number]}"
    if len(unused) > _UNUSED_MAX:
        yield f"#   and {len(unused) - _UNUSED_MAX:,} more"


def _commented(line: str, comment: str) -> str:
    return f"{line:<28} # {comment}" if comment else line


def _quoted(text: str) -> str:
    """Return a string of TOML; characters that would not show are escaped."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
