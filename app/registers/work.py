"""A running load: its files, its changes and its result."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from itertools import filterfalse
from typing import Any

import peewee

from app import clock
from app.errors import OperatorError
from app.registers.applying.answers import LoadBasis
from app.registers.applying.apply_changes import Effect, apply_changes
from app.registers.applying.counts import Counts
from app.registers.applying.judging import counted_answers
from app.registers.applying.table import RegisterTable, StoredRows
from app.registers.baseline import Baseline, older_notes
from app.registers.change import LoadChange, change_by
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, RowDeletion, are_complete, order_of
from app.registers.generations import Generations
from app.registers.history import REPLACE, History, json_text, repeated_notes
from app.registers.intake import NO_SNAPSHOT, Intake
from app.registers.notes import (
    calendar_notes,
    completeness_notes,
    day_sooner_notes,
    exchanged_notes,
    late_end_notes,
    other_letters_notes,
    page_notes,
    repeat_notes,
    shared_date_notes,
    uniform_notes,
    unnamed_insurer_notes,
    unread_notes,
)
from app.registers.reading.reader import Progress
from app.registers.request import LoadResult
from app.registers.rules import Facts, altered_by_spreadsheet, require_rules
from app.storage.engine import Engine
from app.storage.identity import new_stamp
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry, list_entries
from app.storage.tables import Kind
from app.storage.versions import tells_unknown
from app.vehicles.suggestions import in_latin

_IN_LATIN_MAX = 20_000
"""So many plates in other letters are looked up in Latin ones; a batch can bring a few more."""
_SAMPLE_MAX = 1_000
_HELD_MAX = 30_000
"""How many stored rows are compared with a batch at once; others are removed before."""


class Work:
    """A running load, which its steps share.

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
        self.is_replace = self.request.mode == REPLACE
        """Whether the load replaces all rows of its kind; otherwise it merges."""
        self.generations = Generations(engine, register)
        self.history = History(engine, register)
        self.tells_unknown = tells_unknown(engine)
        """Whether answers tell what is not known (D198): then the times of vehicles tell since when
        their values are known."""
        self.load_id = 0
        """The load's number in the history; 0 for a dry run."""
        self.stamp = new_stamp()
        """The stamp in the identity of the generation that a replace builds."""
        self.entry: Entry | None = None
        """The register's entry; nobody else changes it while this load holds the lock."""
        self.basis = self.request.basis or LoadBasis(clock.today(UTC).isoformat())
        self.counts = Counts(intake.kind, 0, self.basis.day)
        """The changes of the load; complete once all rows are compared."""
        self.sample: Sequence[Columns] = ()
        """The first changes of the files, by plate."""
        self.in_latin: set[str] = set()
        """Plates of the files in other letters than Latin, as Latin letters write them."""
        self.change: LoadChange | None = None
        """What the load changes, or would if it were not refused; None until that is known."""

    def __str__(self) -> str:
        return f"load {self.load_id}, {self.request.mode} of {self.register} {self.kind}"

    @property
    def loaded(self) -> int:
        """How many rows and changes were loaded.

        The comparison finds further records to skip: deletions that match no row.
        """
        return self.intake.loaded - self.counts.skipped

    def begin_counts(self, opened: OpenRegister | None, *, is_recovered: bool = True) -> None:
        """Begin to count the changes in a register, which is None if the register is new.

        Its entry says how many rows it holds, unless that is 0: a killed merge may have added rows.

        Args:
            is_recovered: whether it is recorded how killed loads ended. If not, the rows are
                counted, because a merge may have committed some that the entry does not know of.
        """
        held = 0
        if opened is not None and self.entry is not None:
            known = self.entry.rows(self.kind) if is_recovered else 0
            held = known or RegisterTable(opened, self.kind).count()
        self.counts = Counts(self.kind, held, self.basis.day)

    def effects(
        self,
        table: RegisterTable | None,
        counts: Counts,
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[Effect]:
        """Yield the changes of the load, in key order, and count them.

        `after` and `until` limit the key range, so that two processes can share the work.

        Args:
            table: the rows that the register holds; None if there are none.
            counts: is updated with each effect.
            after: skip the groups up to and including this one.
            until: stop after this group; the next call continues there.
        """
        found = table if counts.held_before else None
        compared = self._replaced if self.is_replace else self._merged
        written = 0
        basis = self.basis
        with counted_answers(
            self.engine, self.register, self.kind, basis, counts.answers
        ) as answers:
            for effect in compared(found, after, until):
                counts.add(effect)
                answers.add(effect)
                yield effect
                # The process of the lower half shows the progress of both, so it counts rows twice.
                if after is None:
                    written += len(effect.rows) * (1 if until is None else 2)
                    done = min(written, self.intake.loaded)
                    self.intake.show(Progress(None, done, self.intake.loaded, done))

    def _merged(
        self, table: RegisterTable | None, after: str | None, until: str | None
    ) -> Iterator[Effect]:
        """Yield what a merge changes, in key order."""
        intake = self.intake
        for batch in intake.runs.batches(after, until):
            self._look_at(batch)
            held = table.rows_of_groups(batch) if table else ()
            yield apply_changes(
                self.kind,
                intake.narrowed(batch),
                held,
                intake.read_at,
                dates_values=self.tells_unknown,
            )

    def _replaced(
        self, table: RegisterTable | None, after: str | None, until: str | None
    ) -> Iterator[Effect]:
        """Yield what a replace changes, in key order: all stored rows are compared.

        Rows that native and mapped files mark as deleted are skipped. Raises FileFault if the files
        contain other changes instead of rows.
        """
        stored = StoredRows(self.kind, table.pages(after, until) if table else iter(()))
        order = order_of(self.kind)
        key_of = order.key_of()
        for changes in self.intake.runs.batches(after, until):
            self._look_at(changes)
            batch = changes
            if not are_complete(changes):
                batch = order.without_deleted(changes)
                if not are_complete(batch):
                    raise FileFault(NO_SNAPSHOT)
                deleted = sum(type(each) is RowDeletion for each in changes)
                yield Effect(skipped=deleted)
                if not batch:
                    continue
            held: list[Columns] = []
            for page in stored.take(key_of(batch[-1])):
                held += page
                if len(held) > _HELD_MAX:
                    keys = set(map(key_of, batch))
                    yield Effect(removed=[row for row in held if key_of(row) not in keys])
                    held = [row for row in held if key_of(row) in keys]
            yield apply_changes(
                self.kind,
                batch,
                held,
                self.intake.read_at,
                is_replace=True,
                dates_values=self.tells_unknown,
            )
        for page in stored.take():
            yield Effect(removed=page)

    def _look_at(self, batch: Sequence[Columns]) -> None:
        """Keep a sample of the changes, and collect plates that are not in Latin letters."""
        self.sample = self.sample or batch[:_SAMPLE_MAX]
        # PERF: these sort last, so that one look at a batch of Latin plates is enough.
        if str(batch[-1][0]).isascii() or len(self.in_latin) >= _IN_LATIN_MAX:
            return
        plates = (str(change[0]) for change in batch)
        self.in_latin.update(filter(None, map(in_latin, filterfalse(str.isascii, plates))))

    def _count_in_latin(self) -> int:
        """Return how many of these plates the files or a register have in Latin letters, too."""
        groups = [(plate,) for plate in sorted(self.in_latin)]
        replaced = (self.register, self.kind) if self.is_replace else None
        found: set[object] = set(self.intake.runs.plates_among(self.in_latin))
        for entry in list_entries(self.engine) if groups else ():
            # A register that cannot be read has a note of its own.
            with (
                suppress(OperatorError, peewee.PeeweeException, OSError),
                Generations(self.engine, entry.name).opened_unchanged(entry) as opened,
            ):
                for kind in (Kind.VEHICLES, Kind.POLICIES):
                    if opened and entry.holds(kind) and (entry.name, kind) != replaced:
                        rows = RegisterTable(opened, kind).rows_of_groups(groups)
                        found.update(row[0] for row in rows)
        return len(found)

    def require_rules(self) -> None:
        """Refuse a load that breaks rules, and note suspicious changes (D157).

        Call this once the counts are complete, before anything is committed. Raises RulesBroken.
        """
        self.change = change_by(self.counts)
        known, counts = self.intake.known, self.counts
        facts = self._facts(self.change)
        files = len(self.request.files)
        are_first_policies = self.kind == Kind.POLICIES and not counts.held_before
        # No register is said to hold every policy.
        is_untold = self.tells_unknown and self.request.complete_registers == ()
        # Rows of native and mapped files, without those that remove one.
        rows = self.loaded - (0 if self.is_replace else counts.removed)
        self.intake.rejects.notes += [
            *require_rules(facts),
            *(altered_by_spreadsheet(facts) if counts.held_before else ()),
            *unnamed_insurer_notes(self._count_unnamed(facts)),
            *page_notes(self.intake, counts.held_before),
            *(completeness_notes(self.register) if are_first_policies and is_untold else ()),
            *other_letters_notes(self._count_in_latin()),
            *unread_notes(counts.answers.unread),
            *uniform_notes(self.request, counts),
            *calendar_notes(counts),
            *day_sooner_notes(counts),
            *(late_end_notes(self.sample, known) if are_first_policies else ()),
            *exchanged_notes(self.change),
            *repeat_notes(self.kind, known, rows, counts.known.rows, files),
            *shared_date_notes(known),
            *older_notes(self.engine, self.register, self.kind, self.request.files),
            *repeated_notes(
                self.engine, self.register, self.kind, self.intake.format.name, self.intake.checksum
            ),
        ]

    def _count_unnamed(self, facts: Facts) -> int:
        r"""Return how many policies of an insurer `\N` are in force, if files to merge have it."""
        has_word = self.intake.rejects.lost.count_nothing("insurer")
        if self.is_replace or not has_word:
            return 0
        return sum(facts.insured_by([r"\N"]).values())

    def _facts(self, change: LoadChange) -> Facts:
        """Return what the rules judge; the register is read only if a rule needs more."""

        @contextmanager
        def before() -> Iterator[RegisterTable | None]:
            with self.generations.opened_unchanged(self.entry) as opened:
                yield RegisterTable(opened, self.kind) if opened else None

        def count_known(member: str) -> int:
            with before() as table:
                return table.count_known(member) if table else 0

        def insured_by(names: Sequence[str]) -> Mapping[str, int]:
            with before() as table:
                return table.count_insurers(names, self.basis.day) if table else {}

        return Facts(
            kind=self.kind,
            is_replace=self.is_replace,
            change=change,
            baseline=self.intake.baseline or Baseline(),
            rows=self.intake.loaded,
            altered=self.intake.rejects.lost.count_altered(),
            day_before=frozenset(
                column.member for column in self.intake.known.columns if column.is_day_before
            ),
            request=self.request,
            insured_by=insured_by,
            count_known=count_known,
            count_vehicles=lambda: max(
                (each.rows(Kind.VEHICLES) or 0 for each in list_entries(self.engine)), default=0
            ),
        )

    def result(self) -> LoadResult:
        """Return how the load ended."""
        rejects = self.intake.rejects
        return LoadResult(
            load=self.load_id or None,
            register=self.register,
            kind=self.kind.value,
            mode=self.request.mode,
            format=self.intake.format.name,
            dry_run=self.request.dry_run,
            held_before=self.counts.held_before,
            held=self.counts.held,
            rejects=str(rejects.path) if rejects.path and rejects.written else None,
            reasons=rejects.reasons,
            notes=rejects.notes,
            change=self.change,
            **self._totals(),
        )

    def columns_of_success(self) -> dict[str, Any]:
        """Return the columns of the history line of a load that is done."""
        known = json_text(self.counts.known.document())
        return (
            self._totals() | self._columns_of_files() | {"held": self.counts.held, "known": known}
        )

    def columns_of_reading(self) -> dict[str, object]:
        """Return the columns of the history line with the counts of records read so far."""
        rejects = self.intake.rejects
        return self._columns_of_files() | {
            "rows": self.intake.records,
            "rejected": rejects.rejected,
            "skipped": rejects.skipped,
        }

    def _columns_of_files(self) -> dict[str, object]:
        return {
            "is_terminated": self.intake.is_terminated,
            "reasons": json_text(self.intake.rejects.reasons),
            "notes": json_text(self.intake.rejects.notes),
            "change": json_text(self.change) if self.change else None,
        }

    def _totals(self) -> dict[str, Any]:
        """Return the members that the result and the history share; see `LoadResult`."""
        rejects, counts = self.intake.rejects, self.counts
        return {
            "rows": self.intake.records,
            "loaded": self.loaded,
            "changed": counts.changed,
            "rejected": rejects.rejected,
            "skipped": rejects.skipped + counts.skipped,
            "checksum": self.intake.checksum,
        }
