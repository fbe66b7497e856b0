"""The options for how files are loaded, and the request made from them (D28)."""

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from app.cli.parser import Parser
from app.errors import OperatorError
from app.registers.applying.counts import NAMES
from app.registers.formats import DEFAULT_STATE, FORMATS, Format, formats_of
from app.registers.formats.encodings import encoding_fault
from app.registers.formats.mapped import MappedCsv, read_mapping
from app.registers.formats.values import quoted
from app.registers.history import MERGE, REPLACE
from app.registers.losses import SHRINK_MAX_PERCENT
from app.registers.reading.rejects import RejectLimit
from app.registers.request import DEFAULT_MAX_REJECTS, LoadRequest
from app.storage.tables import Kind


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for how files are loaded."""
    _add_reading(parser)
    _add_permissions(parser)
    _add_rejects(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is in the files, and what a load does with it."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--format",
        choices=sorted(FORMATS),
        help="format of the files; mid is experimental [detected]",
    )
    what.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help="mapping file that says how to read any other CSV file",
    )
    parser.add_argument(
        "--encoding",
        type=_encoding,
        metavar="NAME",
        help="encoding of CSV files, such as iso-8859-2 [UTF-8, or else windows-1252]",
    )
    parser.add_argument(
        "--state",
        type=_state,
        metavar="NY",
        help=f"read only the plates of this state from fines of NYC [{DEFAULT_STATE}]",
    )
    parser.add_argument("--kind", choices=list(Kind), help="kind of the rows [detected]")
    parser.add_argument(
        "--mode",
        choices=[MERGE, REPLACE],
        default=MERGE,
        help="merge adds and changes rows; replace also removes all others [merge]",
    )


def _add_permissions(parser: argparse.ArgumentParser) -> None:
    """Add the options that allow what a load refuses by default."""
    parser.add_argument(
        "--allow-shrink",
        action="store_true",
        help=f"allow the load to remove more than {SHRINK_MAX_PERCENT} %% of the rows",
    )
    parser.add_argument(
        "--allow-missing",
        action="append",
        default=[],
        metavar="COLUMN",
        help="allow files without this column, which their format expects; can be repeated",
    )
    parser.add_argument(
        "--allow-loss",
        action="append",
        default=[],
        choices=NAMES,
        metavar="MEMBER",
        help="allow far fewer rows with this member than before, such as insured; can be repeated",
    )
    parser.add_argument(
        "--blank-missing",
        action="store_true",
        help="when merging native and mapped files, make members without a column unknown "
        "[keep their values]",
    )
    parser.add_argument(
        "--allow-unterminated",
        action="store_true",
        help="allow a file without a line end at its end, even if the previous file had one",
    )
    parser.add_argument(
        "--empty-ok",
        action="store_true",
        help="count files without rows as a fresh load",
    )


def _add_rejects(parser: argparse.ArgumentParser) -> None:
    """Add the options about rejected records."""
    parser.add_argument(
        "--rejects",
        type=Path,
        metavar="FILE",
        help="write rejected rows to this file [below VERIFYD_DATA_DIR]",
    )
    parser.add_argument(
        "--max-rejects",
        type=_reject_limit,
        default=RejectLimit.parse(DEFAULT_MAX_REJECTS),
        metavar="N|N%",
        help=f"refuse the load if more rows are rejected [{DEFAULT_MAX_REJECTS}%]",
    )


def request_of(
    options: argparse.Namespace, files: Sequence[str], register: str | None
) -> LoadRequest:
    """Return the request to load files with the options of `add_options`.

    Raises OperatorError if the mapping file has a mistake, no register is named, or the rejects
    file cannot be written.
    """
    if options.rejects:
        _require_place(options.rejects)
    formats: dict[str, Format] = formats_of(options.state or DEFAULT_STATE, options.encoding)
    if options.map:
        mapped = MappedCsv(read_mapping(options.map), options.encoding)
        formats = {mapped.name: mapped}
        register = register or mapped.register
        if not register:
            raise OperatorError(
                f"{options.map}: register: missing; name it there or with --register"
            )
    return LoadRequest(
        files=files,
        formats=formats,
        format=options.format or (MappedCsv.name if options.map else None),
        kind=Kind(options.kind) if options.kind else None,
        state=options.state,
        encoding=options.encoding,
        register=register,
        mode=options.mode,
        max_rejects=options.max_rejects,
        rejects=options.rejects,
        allow_shrink=options.allow_shrink,
        allow_missing=options.allow_missing,
        allow_loss=options.allow_loss,
        blank_missing=options.blank_missing,
        allow_unterminated=options.allow_unterminated,
        empty_ok=options.empty_ok,
    )


def require_same_register(request: LoadRequest) -> None:
    """Raise OperatorError if the mapping file names another register than the request.

    In the drop directory, the directory names the register. Rows in a register that nobody expects
    would count in look-ups.
    """
    format_ = request.formats.get(request.format or "")
    if isinstance(format_, MappedCsv) and format_.register not in ("", request.register):
        raise OperatorError(
            f"the mapping file names the register {format_.register}, but the directory is that of "
            f"the register {request.register}; move the files to the directory {format_.register}, "
            "or remove the register from the mapping file"
        )


def _require_place(rejects: Path) -> None:
    """Raise OperatorError if the directory of the rejects file does not exist."""
    directory = rejects.absolute().parent
    if not directory.is_dir():
        raise OperatorError(f"--rejects: the directory {directory} does not exist")
    if rejects.is_dir():
        raise OperatorError(f"--rejects: {rejects} is a directory; name a file")


def _encoding(text: str) -> str:
    fault = encoding_fault(text)
    if fault:
        raise argparse.ArgumentTypeError(f"{quoted(text)}: {fault}")
    return text


def _state(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must be a state, such as NY")
    return text.strip().upper()


def _reject_limit(text: str) -> RejectLimit:
    try:
        return RejectLimit.parse(text)
    except ValueError:
        # NOTE: argparse shows only the message of this exception.
        raise argparse.ArgumentTypeError("must be N or N%, from 0 to 100%") from None


# The option files of `verifyd import --drop`: one for each register (D60).

_COMMENT_OR_WORD = re.compile(
    r"""#[^\n]*|((?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+)""", re.DOTALL
)


class _OptionsParser(Parser):
    """Parses an option file with the options of `verifyd import`; an error names the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(prog=str(path), add_help=False)
        add_options(self)

    def error(self, message: str) -> NoReturn:
        raise OperatorError(f"{self.prog}: {message}")


def options_of(register: str | None, options: Path | None) -> argparse.Namespace:
    """Return the options of a register, from the option file with its name.

    The text is split into words as a shell does, with quotes and comments. Nothing is expanded.

    Args:
        register: None for files directly in the drop directory, which have no options.
        options: the directory of the option files.

    Raises OperatorError if there is a mistake in the file.
    """
    path = (options or Path()) / (register or "")
    parser = _OptionsParser(path)
    if options is None or register is None:
        return parser.parse_args([])
    try:
        # Some editors write a byte order mark before the first word.
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeError) as error:
        raise OperatorError(f"{path}: cannot be read: {error}") from error
    if "\0" in text:
        parser.error("it has a NUL character")
    try:
        words = words_of(text)
    except ValueError as error:
        parser.error(str(error))
    return parser.parse_args(words)


def words_of(text: str) -> list[str]:
    """Split a text into words as a shell does. Line ends separate words, too.

    A comment begins with a # at the start of a word, outside of quotes. Raises ValueError if a
    quote is not closed.
    """
    # NOTE: shlex alone would begin a comment at a # within a word, too.
    return shlex.split(_COMMENT_OR_WORD.sub(lambda found: found[1] or "", text))
