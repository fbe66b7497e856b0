"""How a load ended, in a sentence."""

from app.cli.output import counted
from app.registers.request import LoadResult
from app.storage.tables import Kind

_ONE = {Kind.VEHICLES.value: "vehicle", Kind.POLICIES.value: "policy", Kind.FINES.value: "fine"}


def result_sentence(result: LoadResult) -> str:
    """Return such as `20,000 policies loaded into register native, 2 rejected`."""
    loaded = rows_of(result.loaded, result.kind)
    rejected = f"{result.rejected:,} rejected"
    if result.notes:
        rejected += f", {counted(len(result.notes), 'note')} to read"
    if result.dry_run:
        return (
            f"{loaded} would be loaded into register {result.register}, {rejected}; "
            "nothing was changed"
        )
    return f"{loaded} loaded into register {result.register}, {rejected}"


def rows_of(number: int, kind: str) -> str:
    """Return a number of rows of a kind, such as `1 policy` or `2,000 fines`."""
    return counted(number, _ONE[kind], kind)
