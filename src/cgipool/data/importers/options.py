"""What the user asks of an import beside the path."""

from dataclasses import dataclass, fields

from cgipool.errors import UserError

MAX_ATOMS = 3000
"""Molecules with more atoms than this are not read unless asked for: RDKit may need very long for them, or crash."""

OF_CLASSES = ("label", "threshold", "skip_unlabelled")
"""The options that say which classes there are."""


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import; each format has a use for some of them."""

    label: str | None = None
    """The column with the classes."""
    smiles: str | None = None
    """The column with the molecules."""
    threshold: float | None = None
    """Make two classes of a column of numbers: below it, and from it on."""
    skip_unlabelled: bool = False
    """Leave rows without a label out, instead of an error."""
    strict: bool = False
    """A row that cannot be read is an error, instead of being left out and listed."""
    largest_fragment: bool = False
    """Of each molecule keep the largest fragment only."""
    unlabelled: bool = False
    """Read no classes: the graphs are for predictions."""
    id: str | None = None
    """The column with the ids."""
    max_atoms: int = MAX_ATOMS
    """The atoms of the largest molecule that is read."""
    max_size: int | None = None
    """Bytes of text that are read; by default 16 GB, and of a compressed file 100 times its size."""

    def only(self, form: str, useful: tuple[str, ...]) -> None:
        """An error if an option is set that the format has no use for, or one for classes where none are read."""
        for field in fields(self):
            if getattr(self, field.name) == field.default:
                continue
            option = f"--{field.name.replace('_', '-')}"
            if field.name not in useful:
                raise UserError(f"{option} has no use with the format {form}")
            if self.unlabelled and field.name in OF_CLASSES:
                raise UserError(f"{option} has no use with --unlabelled, which reads no classes")
