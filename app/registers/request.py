"""The request for a load, and its result."""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

from app.actions import Actor
from app.registers.applying.answers import LoadBasis
from app.registers.change import LoadChange
from app.registers.formats import FORMATS, Format
from app.registers.history import MERGE
from app.registers.reading.rejects import Reason, RejectLimit
from app.storage.tables import Kind

DEFAULT_MAX_REJECTS = "1%"
SHRINK, UNTERMINATED, EMPTY = "shrink", "unterminated", "empty"
"""What an operator can allow, as `RegisterLoad.accepted` has it."""
LOSS = "loss:"
"""The prefix of a member that may be lost, as in `loss:insured`."""
MISSING = "missing:"
"""The prefix of a column that may be missing."""
ACCEPTED = "accept:"
"""The prefix of a rule that may be broken, as in `accept:insured`."""


_ALLOWED = {
    SHRINK: "rule rows",
    UNTERMINATED: "a last line without a line end",
    EMPTY: "files without rows",
}
_ALLOWED_OF = {LOSS: "loss of ", MISSING: "missing column ", ACCEPTED: "rule "}


def allowed_in_words(accepted: Sequence[str]) -> list[str]:
    """Return in words what the operator allowed.

    Args:
        accepted: the column `RegisterLoad.accepted`.
    """
    words = []
    for each in accepted:
        prefix, _, name = each.partition(":")
        said = _ALLOWED_OF.get(f"{prefix}:")
        words.append(said + name if said else _ALLOWED.get(each, each))
    return words


def counts_as_loaded(valid: int, accepted: Sequence[str]) -> bool:
    """Tell whether a register counts as just loaded after a load (D51).

    Args:
        valid: how many records were loaded or skipped.
        accepted: the column `RegisterLoad.accepted`, with the losses that the operator allowed.
    """
    return valid > 0 or EMPTY in accepted


class LoadRequest(NamedTuple):
    """What the operator asked for. Format, kind and register are detected if they are None."""

    files: Sequence[str]
    formats: Mapping[str, Format] = FORMATS
    format: str | None = None
    kind: Kind | None = None
    encoding: str | None = None
    """The encoding that the operator names; `formats` know it, too."""
    register: str | None = None
    state: str | None = None
    """The state whose plates are read; `formats` reads it. None if the operator names none."""
    deleted: str | None = None
    """The column of native files that marks the rows to remove; `formats` know it, too."""
    timezone: tzinfo | None = None
    """The zone of times in native and mapped files that name none; `formats` know it, too."""
    mode: str = MERGE
    max_rejects: RejectLimit = RejectLimit.parse(DEFAULT_MAX_REJECTS)
    rejects: Path | None = None
    allow_shrink: bool = False
    allow_loss: Sequence[str] = ()
    """Members that rows may lose."""
    accept: Sequence[str] = ()
    """The rules that may be broken, of `app.registers.rules.RULES`."""
    loss_max: int = 10
    """In how many percent of the rows that had a member it may be lost."""
    allow_missing: Sequence[str] = ()
    """Columns that the files may lack, although their format expects them."""
    blank_missing: bool = False
    """Whether members that a file has no column for become unknown in a merge."""
    allow_unterminated: bool = False
    empty_ok: bool = False
    dry_run: bool = False
    is_attended: bool = False
    """Whether somebody sees at a terminal how the load ends."""
    are_trusted: bool = True
    """Whether the files may be links and pipes: not in the drop directory, where others write."""
    require_whole: Callable[[], object] = lambda: None
    """Raises OperatorError if a file is incomplete. It is called before and after reading."""
    option_words: Sequence[str] = ()
    """The words of the option file in the drop directory, to load held files in the same way."""
    waits_for_holds: bool = False
    """Whether a held merge of the register and kind holds this load back, and whether it is refused
    if its content was rejected before (D158)."""
    repeats: int | None = None
    """The number of the held load that this one loads again."""
    basis: LoadBasis | None = None
    """By what answers before and after the load are judged; today and UTC if it is None."""
    complete_registers: Sequence[str] | None = None
    """The registers in which the absence of a policy counts (D198); None if that is not known."""
    keep_snapshots: int = 1
    """How many snapshots the register keeps for rollbacks."""
    actor: Actor | None = None
    """The operator who runs the load, for the record of actions; None for a timer."""

    @property
    def accepted(self) -> list[str]:
        """What the operator allowed, as `RegisterLoad.accepted` has it."""
        allowed = {
            SHRINK: self.allow_shrink,
            UNTERMINATED: self.allow_unterminated,
            EMPTY: self.empty_ok,
        }
        return [
            *(word for word, is_allowed in allowed.items() if is_allowed),
            *(f"{LOSS}{member}" for member in self.allow_loss),
            *(f"{MISSING}{column}" for column in self.allow_missing),
            *(f"{ACCEPTED}{rule}" for rule in self.accept),
        ]

    @property
    def option_notes(self) -> list[str]:
        """The note on what an option file accepts every night, if it accepts anything."""
        accepted = [
            *(["rows (--allow-shrink)"] if self.allow_shrink else []),
            *(f"values of {member} (--allow-loss)" for member in self.allow_loss),
        ]
        if not self.option_words or not accepted:
            return []
        return [f"accepted by its option file: {', '.join(accepted)}"]

    def accepts(self, rule: str) -> bool:
        """Tell whether a rule may be broken."""
        return rule in self.accept or (rule == "rows" and self.allow_shrink)


class LoadResult(NamedTuple):
    """How a load ended, or would have ended if it was a dry run."""

    load: int | None
    """The number in the history; None for a dry run."""
    register: str
    kind: str
    mode: str
    format: str
    dry_run: bool
    rows: int
    """Data records in the files: loaded, rejected and skipped ones."""
    loaded: int
    changed: int
    """Rows of the register that were added, changed or removed."""
    rejected: int
    skipped: int
    """Records that are not for this register, or have nothing to change."""
    held_before: int
    """Rows of this kind that the register held before."""
    held: int
    """Rows of this kind that the register holds now."""
    checksum: str
    """SHA-256 of the decompressed content of all files, in their order."""
    rejects: str | None
    """The rejects file; None if there is none."""
    reasons: Sequence[Reason]
    """Why the first records were rejected."""
    notes: Sequence[str]
    """What the operator should know about the files, each a sentence."""
    change: LoadChange | None = None
    """What the load changed; None if it read nothing."""
