"""The conditions of loads: a register whose last load failed, or that is stale (D76)."""

from collections.abc import Iterable, Iterator, Sequence

from app import clock
from app.alerts.condition import Condition
from app.alerts.freshness import Freshness
from app.alerts.load_facts import UNRECOGNISED, LoadFacts, ended_at
from app.registers.history import unopened_reason
from app.registers.models import RegisterLoad

_FILES_SHOWN_MAX = 5
_NAME_CHARACTERS_MAX = 100


def load_conditions(facts: Iterable[LoadFacts], ages: Iterable[Freshness]) -> Iterator[Condition]:
    """Yield a condition for each register whose last load failed."""
    loaded_at = {each.register.name: each.loaded_at for each in ages}
    for each in facts:
        if each.failed and each.last_failed is not None:
            yield _load_condition(each, each.last_failed, loaded_at.get(each.register))


def _load_condition(
    facts: LoadFacts, last_failed: RegisterLoad, loaded_at: int | None
) -> Condition:
    """Return the condition of a register whose last load failed.

    Args:
        loaded_at: when its rows were loaded, in Unix seconds; None if it holds none.
    """
    many = f"{facts.failed_count:,} loads" if facts.failed_count > 1 else ""
    if facts.register == UNRECOGNISED:
        register, failed = "an unknown register", many or "A load"
    else:
        register, failed = f"the register {facts.register}", f"The last {many or 'load'}"
    return Condition(
        key=f"load:{facts.register}",
        title=f"a load of {register} failed",
        warning=f"{failed} of {register} failed, {_when(facts)}. {_why(facts)}",
        since=facts.first_failed_at,
        remedy=_remedy(facts, is_loaded=loaded_at is not None),
        # Not from `failed`: a later success must not make an older failure a new event.
        occurrence=str(last_failed.id),
        details=(*map(_line, facts.failed), *_more(facts), _note(facts, loaded_at)),
    )


def _when(facts: LoadFacts) -> str:
    """Return when the latest load failed, and the numbers of all that failed."""
    at = clock.iso_utc(ended_at(facts.failed[0]))
    if facts.failed_count > 1:
        return f"the latest at {at} (loads {_numbers(facts)})"
    return f"at {at} (load {facts.failed[0].id})"


def _remedy(facts: LoadFacts, *, is_loaded: bool) -> str:
    remedy = f"sudo verifyd imports show {facts.failed[0].id}"
    if facts.register == UNRECOGNISED or is_loaded or facts.last_loaded is not None:
        return remedy
    purge = f"sudo verifyd imports drop {facts.register} --purge"
    return f"{remedy}; if the name is mistyped, end this warning with: {purge}"


def _note(facts: LoadFacts, loaded_at: int | None) -> str:
    """Return what the register holds now, or what ends the condition of an unknown register."""
    if facts.register == UNRECOGNISED:
        return "It ends when files of the same names are loaded or leave failed/, or after 7 days."
    if loaded_at is None:
        return "The register is still empty."
    return f"The register still holds what was loaded at {clock.iso_utc(loaded_at)}."


def _why(facts: LoadFacts) -> str:
    """Return a sentence that says why the latest load failed, or how to find that out."""
    reason = unopened_reason(facts.failed[0])
    if reason is None:
        return f'"verifyd imports show {facts.failed[0].id}" shows why.'
    return f"Load {facts.failed[0].id} ended before a file was opened: {reason}."


def _numbers(facts: LoadFacts) -> str:
    """Return the numbers of the loads that failed, as far as they are shown."""
    more = facts.failed_count - len(facts.failed)
    shown = ", ".join(str(load.id) for load in facts.failed)
    return f"{shown} and {more:,} more" if more else shown


def _more(facts: LoadFacts) -> Iterator[str]:
    """Yield a line that counts the loads that failed and are not shown, if there are any."""
    more = facts.failed_count - len(facts.failed)
    if more:
        yield f"and {more:,} more, the first of them at {clock.iso_utc(facts.first_failed_at)}"


def stale_conditions(ages: Iterable[Freshness]) -> Iterator[Condition]:
    """Yield a condition for each register that is stale (D51)."""
    for each in ages:
        name = each.register.name
        if each.is_stale:
            yield Condition(
                key=f"stale:{name}",
                title=f"the register {name} is stale",
                warning=each.warning(),
                since=each.loaded_at + (each.limit_seconds or 0),
                remedy=f"sudo verifyd imports list --register {name}",
                occurrence=str(each.loaded_at),
            )


def _line(load: RegisterLoad) -> str:
    """Describe a failed load in one line. SEC: without a reason that can quote a record."""
    # A mistake in the options can hide mode and kind.
    what = " of ".join(filter(None, (load.mode, load.kind)))
    counts = f"{load.rows:,} rows read, {load.rejected:,} rejected" if load.rows else "no rows read"
    files = shown_files(load.files.split("\n"))
    return f"Load {load.id}{f' ({what})' if what else ''}: {files}; {counts}"


def shown_files(names: Sequence[str]) -> str:
    """Return a few names of files for a message, shortened, on one line."""
    shown = [repr(name)[1:-1][:_NAME_CHARACTERS_MAX] for name in names[:_FILES_SHOWN_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
