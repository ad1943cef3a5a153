"""What the user asks of an import beside the path."""

from dataclasses import dataclass, fields

from cgipool.errors import UserError


@dataclass(frozen=True)
class Wishes:
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

    def only(self, form: str, useful: tuple[str, ...]) -> None:
        """An error if an option is set that the format has no use for."""
        for field in fields(self):
            if getattr(self, field.name) != field.default and field.name not in useful:
                raise UserError(f"--{field.name.replace('_', '-')} has no use with the format {form}")
