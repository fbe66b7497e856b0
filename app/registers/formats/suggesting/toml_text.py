"""A suggestion as the text of a mapping file, with its questions."""

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

from app.nouns import counted
from app.registers.formats.dates import NO_END, OPEN_ENDS
from app.registers.formats.mapped import LAST_DAYS, TIMES
from app.registers.formats.mapping_file import QUESTION
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
_WITHOUT = "can be the first day without; if so, use first_day_without above"
_TIMES_TABLE = f"{'[times]':<28} # {'; '.join(f'{word}: {means}' for word, means in TIMES.items())}"


class MappingText(NamedTuple):
    """The text of a mapping file."""

    text: str
    questions: dict[str, int]
    """The numbers of the lines with a question, by key; `times.validTo` is one of `[times]`."""


def mapping_text(found: Suggestion, file: str, register: str, command: str) -> MappingText:
    """Return a mapping file; `read_mapping` accepts it when its questions are answered.

    SEC: it has names of columns, forms and known words, but no other value of the file.

    Args:
        file: how the file is named in comments.
        register: the register that it names.
        command: the line for a shell that loads the file with this mapping.
    """
    lines = list(_lines(found, file, register, command))
    times = lines.index(_TIMES_TABLE) if _TIMES_TABLE in lines else len(lines)
    questions = {
        f"{'times.' if number > times else ''}{line.partition(' = ')[0]}": number
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
    kinds = " or ".join(each for each in Kind if each != found.kind)
    doubt = f"{found.kind}? If it has {kinds}, make the mapping again with --kind"
    yield f'kind = "{found.kind}"' if found.is_kind_sure else _asked("kind", doubt)
    yield _commented(f'register = "{register}"', "any name; one for each source")
    yield f"delimiter = {_quoted(sample.separator)}"
    if sample.encoding:
        yield f"encoding = {_quoted(sample.encoding)}"
    elif not sample.is_utf8:
        yield "# The file is not UTF-8. Unless it is windows-1252, make the mapping again with"
        yield "# its encoding, because names of columns depend on it: --encoding windows-1250"
    common, others = _date_forms(found)
    yield from _choice("date_format", common)
    yield from _decimal(found)
    yield from _zone(found)
    yield from _first_day_without(found)
    yield ""
    yield "[columns]"
    for member, column in found.settled.items():
        yield _commented(f"{member} = {_quoted(column.name)}", _remark(member, column))
    for member, candidates in found.questions.items():
        yield from _question(found, member, candidates)
    if others:
        yield ""
        yield _commented("[date_formats]", "the dates of these members have another form")
        for member, forms in others.items():
            yield from _choice(member, forms)
    yield from _times(found)
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
        forms = [
            *looks.dates(each.values),
            *_most_common(map(looks.form, each.values)),
            "no values",
        ]
        different = f"{len(set(each.values)):,} of {len(each.values):,} differ"
        remark = f": {_remark(member, each)}".removesuffix(": ")
        yield f"#   {_quoted(each.name)} ({forms[0]}; {different}){remark}"
    if candidates[_CANDIDATES_MAX:]:
        yield f"#   and {len(candidates) - _CANDIDATES_MAX:,} more"
    yield _asked(member)


def _most_common(texts: Iterable[str]) -> list[str]:
    return [text for text, _ in Counter(texts).most_common(1)]


def _remark(member: str, column: Column) -> str:
    """Return the doubts about a column as a member."""
    is_without = member in LAST_DAYS and WITHOUT in column.means
    doubts = [
        column.misfit(member),
        "" if column.values else "no values among these rows",
        _WITHOUT if is_without else "",
    ]
    return "; ".join(filter(None, doubts))


def _date_forms(found: Suggestion) -> tuple[list[str], dict[str, list[str]]]:
    """Return the form of most dates, and those of settled members that differ; two if in doubt."""
    dated = found.columns(Shape.DAY, Shape.TIME)
    forms = [(member, looks.dates(each.values)) for member, each in dated]
    # A column in which only one form fits decides for columns in which two forms fit. Of two
    # equally frequent forms, it is the one with days: mostly only one column has months.
    sure = sorted(
        (form for _, (form, *other) in filter(itemgetter(1), forms) if not other),
        key=lambda each: "D" not in each,
    )
    common = _most_common(sure) or next(filter(None, (each for _, each in forms)), [])
    return common, {
        member: each
        for member, each in forms
        if member in found.settled and each and not set(common).intersection(each)
    }


def _decimal(found: Suggestion) -> Iterator[str]:
    amounts = (looks.decimals(each.values) for _, each in found.columns(Shape.MONEY))
    decimals = next(filter(None, amounts), [])
    yield from _choice("decimal", [] if decimals == ["."] else decimals)


def _zone(found: Suggestion) -> Iterator[str]:
    names = [
        _quoted(each.name) for _, each in found.columns(Shape.TIME) if looks.have_times(each.values)
    ]
    if names:
        told = f"zone of the times in {' or '.join(names)}, such as Europe/London"
        yield _asked("timezone", f"{told}; without it they are missing")


def _first_day_without(found: Suggestion) -> Iterator[str]:
    days = found.columns(Shape.DAY)
    members = {member: None for member, each in days if _WITHOUT in _remark(member, each)}
    if members:
        line = f"# first_day_without = [{', '.join(map(_quoted, members))}]"
        yield _commented(line, "remove the # if these dates are the first day without")


def _times(found: Suggestion) -> Iterator[str]:
    members = [
        member
        for member, each in found.likely.items()
        if SHAPES.get(member) == Shape.DAY and looks.have_times(each.values)
    ]
    if members:
        yield ""
        yield _TIMES_TABLE
        for member in members:
            # Only the end of something can be at midnight.
            yield from _choice(member, list(TIMES)[: 2 if member in LAST_DAYS else 1])


def _words(found: Suggestion) -> Iterator[str]:
    for member, column in found.likely.items():
        if member == "validTo":
            yield from _open_ends(found, column)
        shape = Shape.WORD if member == "taxStatus" else SHAPES.get(member, Shape.TEXT)
        words, advice = looks.words(column.values, shape)
        if words or advice:
            yield ""
            yield _commented(f"[words.{member}]", advice)
            yield from (f"{_quoted(word)} = {words[word]}" for word in list(words)[:_WORDS_MAX])


def _open_ends(found: Suggestion, column: Column) -> Iterator[str]:
    texts = [record[column.number].strip().lower() for record in found.sample.records]
    words = sorted(OPEN_ENDS.intersection(texts))
    if words:
        rows = counted(sum(map(words.count, texts)), "row")
        yield ""
        advice = f"{rows} would be rejected; remove the # if these policies have no end"
        yield _commented("[words.validTo]", advice)
        yield from (f'# {_quoted(word)} = "{NO_END}"' for word in words)


def _unused(found: Suggestion) -> Iterator[str]:
    if found.unused:
        yield ""
        yield "# Columns that are not read:"
    for at, reason in list(found.unused.items())[:_UNUSED_MAX]:
        name = found.sample.header[at]
        yield f"#   {_quoted(name) if name.strip() else f'column {at + 1}'}: {reason}"
    if len(found.unused) > _UNUSED_MAX:
        yield f"#   and {len(found.unused) - _UNUSED_MAX:,} more"


def _choice(key: str, answers: list[str]) -> Iterator[str]:
    """Yield the line of a key: a question if there are two answers, nothing if there is none."""
    if answers[1:]:
        yield _asked(key, f"{' or '.join(answers)}?")
    elif answers:
        yield f'{key} = "{answers[0]}"'


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
