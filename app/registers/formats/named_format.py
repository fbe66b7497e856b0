"""What CSV and JSON formats share: they find values by the names of columns or JSON members."""

from abc import abstractmethod

from app.registers.formats.columns import KnownColumns, Layout
from app.registers.formats.format import Format
from app.storage.tables import Kind


class NamedFormat(Format):
    """A format whose columns or JSON members have names.

    `CsvFormat` and `JsonFormat` read the records; their subclasses declare what the names mean.
    """

    has_header: bool
    """Whether a header names all columns, as in CSV."""
    ignored_names: frozenset[str] | None = None
    """Normalised names that the source has but that are not read. None: ignore all other names."""
    is_partial = False
    """Whether a merge keeps the values of columns that a file lacks (D66)."""

    @abstractmethod
    def names_in(self, head: bytes) -> frozenset[str]:
        """Return the normalised names in the head of a file; none if it has another syntax."""

    @abstractmethod
    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind of a file with these names, or None if it has another format.

        Args:
            names: the normalised names of all columns in the header, or of all members of the
                objects in the head.
        """

    @abstractmethod
    def layout(self, kind: Kind) -> Layout:
        """Return how the records of one file become rows. Each file needs a new layout."""

    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind of a file by the names in its head, or None."""
        return self.kind_of(self.names_in(head))

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns of the layout and the ignored names."""
        layout = self.layout(kind)
        return KnownColumns(
            layout.columns,
            self.ignored_names,
            layout.fold,
            has_header=self.has_header,
            is_partial=self.is_partial,
        )
