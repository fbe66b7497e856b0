"""Usage as lines of tables and CSV files, for the command line and for the console."""

from collections.abc import Iterator, Mapping, Sequence

from app import clock
from app.accounts.usage.models import CLASSES
from app.accounts.usage.report import By, Used
from app.csv_cells import text_cell

_DELIMITER = ","
_LINE_END = "\r\n"


def columns_of(by: Sequence[By]) -> tuple[str, ...]:
    """Return the names of the columns of usage that is added up by something."""
    return (*by, "answers", *CLASSES, "vehicles")


def line_of(used: Used, by: Sequence[By]) -> Mapping[str, object]:
    """Return one line, by the names of its columns."""
    groups = {
        By.ACCOUNT: used.account,
        By.KEY: used.key,
        By.DAY: used.day,
        By.HOUR: None if used.hour is None else clock.iso_utc(used.hour),
        By.OPERATION: used.operation,
    }
    return {
        **{str(each): groups[each] for each in by},
        "answers": used.answers,
        **dict(zip(CLASSES, used.by_class, strict=True)),
        "vehicles": used.vehicles,
    }


def csv_lines(used: Sequence[Used], by: Sequence[By]) -> Iterator[str]:
    """Yield a heading, and a line for each group, without thousands separators."""
    cell, columns = text_cell(_DELIMITER), columns_of(by)
    yield _DELIMITER.join(columns) + _LINE_END
    for each in used:
        line = line_of(each, by)
        yield _DELIMITER.join(cell(str(line[name])) for name in columns) + _LINE_END
