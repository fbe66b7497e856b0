"""A load under way: what its steps hand on to each other."""

from app.registers.applying.counts import Counts
from app.registers.applying.losses import exchange_notes, require_no_loss, uniform_notes
from app.registers.comparing import require_few_lost
from app.registers.current import count_known
from app.registers.generations import Generations
from app.registers.history import REPLACE, History
from app.registers.reading.intake import Intake
from app.storage.engine import Engine
from app.storage.registers import Entry


class Work:
    """One load of one register."""

    def __init__(self, engine: Engine, register: str, intake: Intake) -> None:
        self.engine = engine
        self.register = register
        self.intake = intake
        self.request = intake.request
        self.kind = intake.kind
        self.generations = Generations(engine, register)
        self.history = History(engine, register)
        self.load_id = 0
        """Its number in the history; 0 of a dry run."""
        self.entry: Entry | None = None
        """What the register index says; nobody else changes it while the lock is held."""
        self.counts = Counts(intake.kind, 0)

    def __str__(self) -> str:
        return f"load {self.load_id}, {self.request.mode} of {self.register} {self.kind}"

    def judge(self) -> None:
        """Refuse a load that loses rows, or what was known; note what looks wrong (D67)."""
        if self.request.mode == REPLACE:
            self.counts.end_replace()
        require_few_lost(self.intake, self.counts)
        if self.request.mode == REPLACE:
            count_known(self.generations, self.entry, self.counts)
        require_no_loss(self.engine, self.register, self.request, self.counts)
        self.intake.rejects.notes += exchange_notes(self.request, self.counts)
        self.intake.rejects.notes += uniform_notes(self.request, self.counts)
