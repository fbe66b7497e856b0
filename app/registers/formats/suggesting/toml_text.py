"""A suggestion as the text of a mapping file, with its questions."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from app.registers.formats.columns import Column as Native
from app.registers.formats.mapped import DATES, LAST_DAYS, TIMES
from app.registers.formats.mapping_file import QUESTION
from app.registers.formats.native import SHAPES
from app.registers.formats.suggesting.names import PART, WITHOUT
from app.registers.formats.suggesting.sample import Column, can_read, words_of
from app.registers.formats.suggesting.suggestion import Suggestion, missing_members
from app.storage.tables import Shape
from app.text import counted

_HEAD = """\
# A first mapping for {file}, from its header and {rows}. Check each line.
# A "?" is a question: answer it, or remove its line if the file lacks that.
# Then try it. This reads the whole file, and changes nothing:
#   {command} --dry-run
# If the counts and notes are right, load the file:
#   {command}"""
_TIMES = f"[times]                      # {'; '.join(f'{each}: {TIMES[each]}' for each in TIMES)}"
_CONSTANTS = '# [constants]                # the same in every row, such as insurer = "Acme"'
_UNUSED_MAX = 200
_CANDIDATES_MAX = 8


def mapping_text(found: Suggestion, file: str, register: str, command: str) -> str:
    """Return a mapping file; `read_mapping` accepts it when its questions are answered.

    SEC: it has names of columns, forms and known words, but no other value of the file.

    Args:
        file: how the file is named in comments.
        register: the register that it names.
        command: the line for a shell that loads the file with this mapping.
    """
    rows = counted(found.sample.rows, "row")
    head = _HEAD.format(file=_quoted(file), rows=rows, command=command)
    common = _date_format(found)
    tables: dict[str, list[str]] = defaultdict(list)
    tables[head] += [*_settings(found, register), *_choice("date_format", common)]
    tables["[columns]"] += [*_columns(found), "", _CONSTANTS]
    for member, column in found.likely.items():
        shape = SHAPES[member]
        if shape == Shape.MONEY:
            tables[head] += _choice("decimal", column.decimals)
        if shape == Shape.TIME and column.has_times:
            told = f"zone of {member}, such as Europe/London; without it these times are missing"
            tables[head] += [_asked("timezone", told)]
        if shape == Shape.DAY and column.has_times:
            # Only the end of something can be at midnight.
            tables[_TIMES] += _choice(member, list(TIMES)[: 1 + (member in LAST_DAYS)])
        if member in DATES and not {*common}.intersection(column.forms):
            tables["[date_formats]"] += _choice(member, column.forms)
        tables[f"[words.{member}]"] += _words(column, found.members[member])
    tables["# Columns that are not read; some could be with another --kind:"] += _unused(found)
    return "\n\n".join("\n".join([each, *tables[each]]) for each in tables if tables[each]) + "\n"


def _settings(found: Suggestion, register: str) -> Iterator[str]:
    doubt = f"{found.kind}? If not, make the mapping again with --kind"
    yield f'kind = "{found.kind}"' if found.is_kind_sure else _asked("kind", doubt)
    yield _commented(f'register = "{register}"', "any name; one for each source")
    yield f"delimiter = {_quoted(found.sample.separator)}"
    if found.sample.encoding:
        yield f"encoding = {_quoted(found.sample.encoding)}"
    elif not found.sample.is_utf8:
        told = "what is not UTF-8 is read so; if names are wrong, use --encoding windows-1250"
        yield _commented('# encoding = "windows-1252"', told)


def _date_format(found: Suggestion) -> Sequence[str]:
    """Return the form of most dates; two if in doubt."""
    dated = [column for member, column in found.likely.items() if member in DATES]
    forms = Counter(tuple(each.forms) for each in dated if each.forms)
    # A column in which only one form fits decides for columns in which two forms fit. Of two
    # equally frequent forms, it is the one with days: mostly only one column has months.
    return max(forms, key=lambda each: (len(each) == 1, forms[each], "D" in each[0]), default=())


def _columns(found: Suggestion) -> Iterator[str]:
    for member, column in found.settled.items():
        doubt = "" if column.values else "no values among these rows"
        yield _commented(f"{member} = {_quoted(column.name)}", doubt)
    needed = missing_members(found.kind, found.settled)
    for member, candidates in found.questions.items():
        told = "It could be:" if candidates else "No column looks like it."
        yield f"# {member}? {'Every row needs it. ' if member in needed else ''}{told}"
        for each in candidates[:_CANDIDATES_MAX]:
            yield f"#   {_candidate(each, found.members[member])}"
        if candidates[_CANDIDATES_MAX:]:
            yield f"#   and {len(candidates) - _CANDIDATES_MAX:,} more"
        yield _asked(member)


def _candidate(column: Column, native: Native) -> str:
    """Return the name of a column, the form of its values, and doubts."""
    count, distinct = len(column.values), len(set(column.values))
    text = f"{column.form}; {distinct:,} of {count:,} differ" if count else "no values"
    text = f"{_quoted(column.name)} ({text})"
    if not column.fits(native):
        text += f": most of its values are no {native.label}"
    if native.label in LAST_DAYS and WITHOUT in column.means:
        line = f'first_day_without = ["{native.label}"]'
        text += f": if it is the first day without, add {line} above [columns]"
    return text


def _words(column: Column, native: Native) -> list[str]:
    """Return lines for the words that a load does not read.

    SEC: unknown words are only counted, because the column can contain anything.
    """
    words, is_end = words_of(native.label), native.label == "validTo"
    if not native.blanks and not is_end:
        return []
    counts = Counter(each.lower() for each in column.texts if not any(map(str.isdigit, each)))
    unread = sorted(each for each in counts.keys() - native.blanks if not can_read(native, each))
    lines = [f"{_quoted(each)} = {json.dumps(words[each])}" for each in unread if each in words]
    if lines and is_end:
        lines = ["# If these policies have no end, remove the #:", *(f"# {each}" for each in lines)]
    if others := [each for each in unread if each not in words]:
        rows = counted(sum(counts[each] for each in others), "row")
        lines += [f'# Add lines "WORD" = VALUE for {counted(len(others), "other word")} in {rows}.']
    return lines


def _unused(found: Suggestion) -> Iterator[str]:
    named = {*found.sample.named}
    for column in found.unused[:_UNUSED_MAX]:
        known = [each for each, rank in column.means.items() if rank > PART and each in SHAPES]
        reason = f": could be {' or '.join(known)}" if known else ""
        if column not in named:
            reason = ": it has no name, or one that is there more than once"
        yield f"#   {_quoted(column.name)}{reason}"
    if found.unused[_UNUSED_MAX:]:
        yield f"#   and {len(found.unused) - _UNUSED_MAX:,} more"


def _choice(key: str, answers: Sequence[str]) -> Sequence[str]:
    """Return the line of a key: a question if there are two answers; none if there is none."""
    if answers[1:]:
        return [_asked(key, f"{' or '.join(answers)}?")]
    return [f'{key} = "{each}"' for each in answers]


def _asked(key: str, comment: str = "") -> str:
    return _commented(f'{key} = "{QUESTION}"', comment)


def _commented(line: str, comment: str) -> str:
    return f"{line:<28} # {comment}" if comment else line


def _quoted(text: str) -> str:
    """Return a string of TOML; characters that would not show are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)
