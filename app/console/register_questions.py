"""What the console asks before it changes a register (D135).

Each function raises PageError if the action is not possible.
"""

from typing import NamedTuple

from app.console.context import PageError
from app.registers.state import RegisterState

PLACE = "registers"
"""The first segment of the paths of registers."""


class Question(NamedTuple):
    """What a page asks before an action."""

    heading: str
    text: str
    button: str


def impossible(state: RegisterState, heading: str, text: str) -> PageError:
    """Return the refusal of an action on a register."""
    return PageError(409, heading, f"Nothing was changed. {text}", back=(PLACE, state.name))


def ask_rollback(state: RegisterState, to: int | None) -> Question:
    """Return the question before a rollback."""
    snapshot = None if to is None else state.snapshot(to)
    if snapshot is None or state.current is None:
        raise impossible(
            state,
            "The register cannot go back to that load",
            "Its page shows to which loads it can go back.",
        )
    kinds = " and ".join(sorted(snapshot.undone))
    return Question(
        f"Roll {state.name} back to load {to}?",
        f"It holds {state.current.described()}. Then it holds {snapshot.kept.described()} again. "
        f"This changes its {kinds}, from the next request on. What later loads brought is lost, "
        "unless it is loaded again.",
        "Roll the register back",
    )


def ask_drop(state: RegisterState, _to: int | None) -> Question:
    """Return the question before a drop."""
    if state.current is None:
        raise impossible(state, "There is nothing to drop", "The register was dropped already.")
    return Question(
        f"Drop {state.name}?",
        f"It holds {state.current.described()}. From the next request on, answers do not use it. "
        "You can bring it back, until something is loaded into a register of this name.",
        "Drop the register",
    )


def ask_undrop(state: RegisterState, _to: int | None) -> Question:
    """Return the question before an undrop."""
    if state.dropped is None:
        raise impossible(
            state,
            "There is nothing to bring back",
            "The register was not dropped, or something was loaded into it since.",
        )
    return Question(
        f"Bring {state.name} back?",
        f"It held {state.dropped.described()} when it was dropped. From the next request on, "
        "answers use it again.",
        "Bring the register back",
    )


def ask_purge(state: RegisterState, _to: int | None) -> Question:
    """Return the question before a purge."""
    if not state.can_be_purged:
        raise impossible(state, "There is nothing to remove", "The register holds no data.")
    if state.current is not None:
        text = "Until it is removed, a dropped register can be brought back."
        raise impossible(state, "Drop the register first", text)
    if state.dropped is None:
        return Question(
            f"End the warning about {state.name}?",
            "All loads of this name failed, so there is no data to remove. If the name was "
            "mistyped, this ends the warning about it.",
            "End the warning",
        )
    return Question(
        f"Remove {state.name} for good?",
        f"Its data ({state.dropped.described()}) and its snapshots are removed, which frees their "
        "disk space. This cannot be undone: only its files can bring it back.",
        "Remove the register for good",
    )
