"""The state of a running load, which its steps share."""

from app.registers.applying.counts import Counts
from app.registers.applying.doubts import repeat_notes, shared_date_notes
from app.registers.applying.losses import exchange_notes, require_no_loss, uniform_notes
from app.registers.comparing import require_few_lost
from app.registers.current import count_known
from app.registers.generations import Generations
from app.registers.history import REPLACE, History
from app.registers.intake import Intake
from app.storage.engine import Engine
from app.storage.registers import Entry


class Work:
    """A running load: what it reads, its register, and what it has counted so far.

    Args:
        register: the name of the register.
        intake: the files, opened and recognised.
    """

    def __init__(self, engine: Engine, register: str, intake: Intake) -> None:
        self.engine = engine
        self.register = register
        self.intake = intake
        self.request = intake.request
        self.kind = intake.kind
        self.generations = Generations(engine, register)
        self.history = History(engine, register)
        self.load_id = 0
        """The load's number in the history; 0 for a dry run."""
        self.entry: Entry | None = None
        """The register's entry; nobody else changes it while this load holds the lock."""
        self.counts = Counts(intake.kind, 0)
        """What the load changes; complete once all rows are compared."""

    @property
    def is_replace(self) -> bool:
        """Whether the load replaces all rows of its kind; otherwise it merges."""
        return self.request.mode == REPLACE

    def __str__(self) -> str:
        return f"load {self.load_id}, {self.request.mode} of {self.register} {self.kind}"

    def complete_counts(self) -> None:
        """Complete the counts of a replace, once all rows are compared."""
        if self.is_replace:
            self.counts.end_replace()
            self.counts.known_held = count_known(self.generations, self.entry, self.counts)

    def check_losses(self) -> None:
        """Refuse a load that loses rows or content, and note suspicious changes (D67).

        Call this once the counts are complete, before anything is committed. Raises OperatorError.
        """
        require_few_lost(self.intake, self.counts)
        require_no_loss(self.engine, self.register, self.request, self.counts)
        known, counts = self.intake.format.known_columns(self.kind), self.counts
        files = len(self.request.files)
        self.intake.rejects.notes += [
            *exchange_notes(self.request, counts),
            *uniform_notes(self.request, counts),
            *repeat_notes(self.kind, known, self.intake.loaded, counts.known.rows, files),
            *shared_date_notes(known),
        ]
