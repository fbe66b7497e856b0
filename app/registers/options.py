"""The options for how files are loaded, and the request made from them (D60).

The command line and the option files of the drop directory have the same ones.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from app.arguments import Argument, OneOf, Parser, flag
from app.errors import OperatorError
from app.registers.applying.counts import NAMES
from app.registers.formats import DEFAULT_STATE, FORMATS, Format, formats_of
from app.registers.formats.columns import normalised
from app.registers.formats.encodings import named_encoding
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.registers.formats.native import LAYOUTS
from app.registers.formats.values import quoted
from app.registers.history import MERGE, REPLACE
from app.registers.reading.rejects import RejectLimit
from app.registers.request import DEFAULT_MAX_REJECTS, LoadRequest
from app.registers.rules import RULES
from app.settings.time_zones import require_zone
from app.storage.tables import Kind


def _state(text: str) -> str:
    if not text.strip():
        raise ValueError("must be a state, such as NY")
    return text.strip().upper()


def _column_of_deletions(text: str) -> str:
    name = normalised(text)
    if not name:
        raise ValueError("must be the name of a column, with a letter or a digit")
    if name in _OF_MEMBERS:
        raise ValueError(f"{quoted(text)} is a member with values of its own")
    return text.strip()


_OF_MEMBERS = frozenset[str]().union(
    *(column.names for layout in LAYOUTS.values() for column in layout().columns)
)
"""The normalised names of all members of native files."""
_ACCEPT = Argument(
    "--accept RULE",
    f"load although this rule is broken: {', '.join(RULES)}; can be repeated",
    action="append",
    default=[],
    choices=list(RULES),
)
OPTIONS = (
    # The content of the files, and how a load changes the register.
    OneOf(
        Argument(
            "--format",
            "format of the files; mid is experimental [detected]",
            choices=sorted(FORMATS),
        ),
        Argument("--map FILE", "mapping file that says how to read any other CSV file", type=Path),
    ),
    Argument(
        "--encoding NAME",
        "encoding of CSV files, such as iso-8859-2 [UTF-8, or else windows-1252]",
        type=named_encoding,
    ),
    Argument(
        "--state NY",
        f"read only the plates of this state from fines of NYC [{DEFAULT_STATE}]",
        type=_state,
    ),
    Argument("--kind", "kind of the rows [detected]", choices=list(Kind)),
    Argument(
        "--mode",
        "merge adds and changes rows; replace also removes all others [merge]",
        choices=[MERGE, REPLACE],
        default=MERGE,
    ),
    Argument(
        "--deleted COLUMN",
        "column of native files that is true in the rows to remove [none]",
        type=_column_of_deletions,
    ),
    Argument(
        "--timezone NAME",
        "zone of times in native and mapped files that name none, such as Europe/London "
        "[they cannot be read]",
        type=require_zone,
    ),
    # Checks that refuse a load by default.
    flag(
        "--allow-shrink",
        "the same as --accept rows",
    ),
    Argument(
        "--allow-missing COLUMN",
        "allow files without this column, which their format expects; can be repeated",
        action="append",
        default=[],
    ),
    Argument(
        "--allow-loss MEMBER",
        "allow rows to lose this member, such as insured; can be repeated",
        action="append",
        default=[],
        choices=NAMES,
    ),
    _ACCEPT,
    flag(
        "--blank-missing",
        "when merging native and mapped files, make members without a column unknown "
        "[keep their values]",
    ),
    flag(
        "--allow-unterminated",
        "allow a file without a line end at its end, even if the previous file had one",
    ),
    flag("--empty-ok", "count files without rows as a fresh load"),
    # Rejected records.
    Argument(
        "--rejects FILE", "write rejected rows to this file [below VERIFYD_DATA_DIR]", type=Path
    ),
    Argument(
        "--max-rejects N|N%",
        f"refuse the load if more rows are rejected [{DEFAULT_MAX_REJECTS}%]",
        type=RejectLimit.parse,
        default=RejectLimit.parse(DEFAULT_MAX_REJECTS),
    ),
)
"""The options for how files are loaded. Their names are those of the fields of LoadRequest."""


def request_of(
    options: Mapping[str, Any], files: Sequence[str], register: str | None
) -> LoadRequest:
    """Return the request to load files.

    Args:
        options: the values of OPTIONS by name.

    Raises OperatorError if the mapping file has a mistake, no register is named, or the rejects
    file cannot be written.
    """
    if options["rejects"]:
        _require_place(options["rejects"])
    encoding, timezone = options["encoding"], options["timezone"]
    formats: dict[str, Format] = formats_of(
        options["state"] or DEFAULT_STATE, encoding, options["deleted"], timezone
    )
    fields = {name: value for name, value in options.items() if name in LoadRequest._fields}
    if options["map"]:
        mapped = MappedCsv(read_mapping(options["map"]), encoding, timezone)
        formats = {mapped.name: mapped}
        fields["format"] = mapped.name
        register = register or mapped.register
        if not register:
            raise OperatorError(
                f"{options['map']}: register: missing; name it there or with --register"
            )
    if options["kind"]:
        fields["kind"] = Kind(options["kind"])
    return LoadRequest(**fields | {"files": files, "formats": formats, "register": register})


def _require_place(rejects: Path) -> None:
    """Raise OperatorError if the directory of the rejects file does not exist."""
    directory = rejects.absolute().parent
    if not directory.is_dir():
        raise OperatorError(f"--rejects: the directory {directory} does not exist")
    if rejects.is_dir():
        raise OperatorError(f"--rejects: {rejects} is a directory; name a file")


# The option files of `verifyd import --drop`: one for each register.

_COMMENT_OR_WORD = re.compile(
    r"""#[^\n]*|((?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+)""", re.DOTALL
)


class _OptionsParser(Parser):
    """Parses the words of an option file, which `prog` names."""

    def _require_known_options(self, words: Sequence[str]) -> None:
        # It would accept every night what somebody has looked at once.
        if any(word.partition("=")[0] == "--accept" for word in words):
            self.error(
                "--accept is not allowed here; accept one load with: verifyd imports accept ID"
            )
        super()._require_known_options(words)

    def error(self, message: str) -> NoReturn:
        raise OperatorError(f"{self.prog}: {message}")


def dropped_request(
    files: Sequence[str], register: str | None, directory: Path | None
) -> LoadRequest:
    """Return the request to load files of the drop directory, with the options of their register.

    Args:
        register: None for files directly in the drop directory, which have no options.
        directory: has the option files, each with the name of its register; None without any.

    Raises OperatorError if there is a mistake in the option file, or in the mapping file it names.
    """
    if directory is None or register is None:
        return _request_of_words([], files, register, "")
    path = directory / register
    try:
        # Some editors write a byte order mark before the first word.
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeError) as error:
        raise OperatorError(f"{path}: cannot be read: {error}") from error
    if "\0" in text:
        raise OperatorError(f"{path}: it has a NUL character")
    try:
        words = words_of(text)
    except ValueError as error:
        raise OperatorError(f"{path}: {error}") from error
    return _request_of_words(words, files, register, str(path))


def held_request(words: Sequence[str], files: Sequence[str], register: str) -> LoadRequest:
    """Return the request to load held files again, with the words of their option file.

    Raises OperatorError if there is a mistake in the words, or in the mapping file they name.
    """
    return _request_of_words(words, files, register, "the option file of the held load")


def words_of(text: str) -> list[str]:
    """Split a text into words as a shell does. Line ends separate words, too.

    Nothing is expanded. A comment begins with a # at the start of a word, outside of quotes. Raises
    ValueError if a quote is not closed.
    """
    # NOTE: shlex alone would begin a comment at a # within a word, too.
    return shlex.split(_COMMENT_OR_WORD.sub(lambda found: found[1] or "", text))


def _request_of_words(
    words: Sequence[str], files: Sequence[str], register: str | None, source: str
) -> LoadRequest:
    parser = _OptionsParser(prog=source, add_help=False)
    for option in OPTIONS:
        if option is not _ACCEPT:
            option.add_to(parser)
    options = vars(parser.parse_args(words))
    request = request_of(options, files, register)._replace(option_words=words)
    format_ = request.formats.get(request.format or "")
    if isinstance(format_, MappedCsv) and format_.register not in ("", register):
        # Rows in a register that nobody expects would count in look-ups.
        raise OperatorError(
            f"the mapping file names the register {format_.register}, but the directory is that of "
            f"the register {register}; move the files to the directory {format_.register}, "
            "or remove the register from the mapping file"
        )
    return request
