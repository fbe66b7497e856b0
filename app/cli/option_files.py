"""The option files of `verifyd import --drop`: one for each register (D60)."""

import argparse
import re
import shlex
from pathlib import Path
from typing import NoReturn

from app.cli import load_options
from app.cli.usage import Parser
from app.errors import OperatorError

_COMMENT_OR_WORD = re.compile(
    r"""#[^\n]*|((?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+)""", re.DOTALL
)


class _OptionsParser(Parser):
    """Parses an option file with the options of `verifyd import`; an error names the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(prog=str(path), add_help=False)
        load_options.add_options(self)

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
