"""A suggestion as the text of a mapping file, with its questions."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from app.nouns import counted
from app.registers.formats.mapped import QUESTION
from app.registers.formats.native import SHAPES
from app.registers.formats.suggesting import looks
from app.registers.formats.suggesting.names import WITHOUT
from app.registers.formats.suggesting.suggestion import Column, Suggestion, missing_members
from app.storage.tables import Kind, Shape

_UNUSED_MAX = 200
_CANDIDATES_MAX = 8
_WORDS_MAX = 20
_CONSTANTS = {
    Kind.POLICIES: ("insurer", '"Example Insurance"'),
    Kind.FINES: ("currency", '"EUR"'),
}
"""The member that is often the same in all rows of a kind, and an example."""


class MappingText(NamedTuple):
    """The text of a mapping file."""

    text: str
    questions: dict[str, int]
    """The numbers of the lines with a question, by member."""


def mapping_text(found: Suggestion, file: str, register: str, command: str) -> MappingText:
    """Return a mapping file; `read_mapping` accepts it when its questions are answered.

    SEC: it has names of columns, forms and known words, but no other value of the file.

    Args:
        file: how the file is named in comments.
        register: the register that it names.
        command: the line for a shell that loads the file with this mapping.
    """
    lines = list(_lines(found, file, register, command))
    questions = {
        line.partition(" = ")[0]: number
        for number, line in enumerate(lines, 1)
        if not line.startswith("#") and f' = "{QUESTION}"' in line.partition("#")[0]
    }
    return MappingText("\n".join(lines) + "\n", questions)


def _lines(found: Suggestion, file: str, register: str, command: str) -> Iterator[str]:
    sample = found.sample
    rows = f"its first {counted(len(sample.records), 'row')}" if sample.records else "its header"
    yield f"# A first mapping for {_quoted(file)}, from {rows}. Check each line."
    yield f'# A "{QUESTION}" is a question: answer it, or remove its line if the file lacks that.'
    yield "# Then try it. This reads the whole file, and changes nothing:"
    yield f"#   {command} --dry-run"
    yield "# If the counts and notes are right, load the file:"
    yield f"#   {command}"
    others = " or ".join(each for each in Kind if each != found.kind)
    doubt = f"{found.kind}? If it has {others}, make the mapping again with --kind"
    yield f'kind = "{found.kind}"' if found.is_kind_sure else _asked("kind", doubt)
    yield _commented(f'register = "{register}"', "any name; one for each source")
    yield f"delimiter = {_quoted(sample.separator)}"
    if sample.encoding:
        yield f"encoding = {_quoted(sample.encoding)}"
    elif not sample.is_utf8:
        yield "# The file is not UTF-8. Unless it is windows-1252, make the mapping again with"
        yield "# its encoding, because names of columns depend on it: --encoding windows-1250"
    common, other_forms = _date_forms(found)
    if common:
        yield _choice("date_format", common)
    amounts = (looks.decimal(each.values) for _, each in found.columns(Shape.MONEY))
    decimal = next(filter(None, amounts), None)
    if decimal and decimal.name != ".":
        yield _choice("decimal", decimal)
    yield ""
    yield "[columns]"
    for member, column in found.settled.items():
        yield _commented(f"{member} = {_quoted(column.name)}", _remark(member, column))
    for member, candidates in found.questions.items():
        yield from _question(found, member, candidates)
    if other_forms:
        yield ""
        yield _commented("[date_formats]", "the dates of these members have another form")
        yield from (_choice(member, form) for member, form in other_forms.items())
    constant, value = _CONSTANTS.get(found.kind, ("", ""))
    if constant and constant not in found.settled.keys() | found.questions.keys():
        yield ""
        yield "# [constants]                # a value that is the same in every row"
        yield f"# {constant} = {value}"
    yield from _words(found)
    yield from _unused(found)


def _question(found: Suggestion, member: str, candidates: list[Column]) -> Iterator[str]:
    needed = ""
    if member in missing_members(found.kind, found.settled):
        place = {"registration": "", "amount": ", or settledOn"}
        needed = f"Every row needs it{place.get(member, ', or move it to [constants]')}. "
    yield f"# {member}? {needed}{'It could be:' if candidates else 'No column looks like it.'}"
    for each in candidates[:_CANDIDATES_MAX]:
        form, remark = looks.dates(each.values), _remark(member, each)
        written = Counter(map(looks.form, each.values)).most_common(1)
        shown = (form and form.name) or (written[0][0] if written else "no values")
        different = f"{len(set(each.values)):,} of {len(each.values):,} differ"
        yield f"#   {_quoted(each.name)} ({shown}; {different}){f': {remark}' if remark else ''}"
    if candidates[_CANDIDATES_MAX:]:
        yield f"#   and {len(candidates) - _CANDIDATES_MAX:,} more"
    yield _asked(member)


def _remark(member: str, column: Column) -> str:
    """Return the doubts about a column as a member."""
    is_day = SHAPES.get(member) == Shape.DAY
    form = looks.dates(column.values)
    doubts = {
        column.misfit(member): True,
        "no values among these rows": not column.values,
        "no mapping can read its dates, such as D.M.YY": is_day and form and not form.name,
        "dates of this name can be the first day without": is_day and WITHOUT in column.means,
    }
    return "; ".join(each for each, is_so in doubts.items() if each and is_so)


def _date_forms(found: Suggestion) -> tuple[looks.Form | None, dict[str, looks.Form]]:
    """Return the form of most dates, and by member the forms of those that differ from it."""
    forms = [
        (member, form)
        for member, column in found.columns(Shape.DAY, Shape.TIME)
        if (form := looks.dates(column.values)) and form.name
    ]
    # A column in which only one form fits decides for columns in which two forms fit.
    sure = Counter(form.name for _, form in forms if not form.other)
    if not sure:
        return (forms[0][1] if forms else None), {}
    # Of two equally frequent forms, the one with days: mostly only one column has months.
    common = max(sure, key=lambda name: (sure[name], "D" in str(name)))
    others = {member: form for member, form in forms if common not in form}
    return looks.Form(common), {each: others[each] for each in others.keys() & found.settled.keys()}


def _words(found: Suggestion) -> Iterator[str]:
    likely = {member: columns[0] for member, columns in found.questions.items() if columns}
    for member, column in (found.settled | likely).items():
        shape = Shape.WORD if member == "taxStatus" else SHAPES.get(member, Shape.TEXT)
        words, advice = looks.words(column.values, shape)
        # Nothing is no first and no last day.
        if (words or advice) and member not in ("validFrom", "validTo"):
            yield ""
            yield _commented(f"[words.{member}]", advice)
            yield from (f"{_quoted(word)} = {words[word]}" for word in list(words)[:_WORDS_MAX])


def _unused(found: Suggestion) -> Iterator[str]:
    if found.unused:
        yield ""
        yield "# Columns that are not read:"
    for at, reason in list(found.unused.items())[:_UNUSED_MAX]:
        name = found.sample.header[at]
        yield f"#   {_quoted(name) if name.strip() else f'column {at + 1}'}: {reason}"
    if len(found.unused) > _UNUSED_MAX:
        yield f"#   and {len(found.unused) - _UNUSED_MAX:,} more"


def _choice(key: str, form: looks.Form) -> str:
    return _asked(key, f"{form.name} or {form.other}?") if form.other else f'{key} = "{form.name}"'


def _asked(key: str, comment: str = "") -> str:
    return _commented(f'{key} = "{QUESTION}"', comment)


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
