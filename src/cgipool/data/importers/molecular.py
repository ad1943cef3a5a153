"""Molecules with labels, one after another, to a set."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.importers.chem import Chem
from cgipool.data.importers.imported import Imported, Skipped
from cgipool.data.importers.labels import Classes, is_missing
from cgipool.data.importers.wishes import Wishes
from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles
from cgipool.errors import UserError

UNREAD, UNLABELLED, CUT = "rows that are no molecule", "rows without a label", "molecules cut to the largest fragment"
"""How `GraphSet.dropped` names what an import left out."""


class Entry(NamedTuple):
    """One molecule of the source."""

    row: int
    id: str
    text: str
    """A SMILES or a molfile."""
    label: str


def gather_molecules(
    path: Path, name: str, entries: Iterable[Entry], classes: Classes, wishes: Wishes, *, molfiles: bool = False
) -> Imported:
    """The set of these molecules; what is none is listed, or with `strict` an error."""
    featurizer = MoleculeFeaturizer(largest_fragment=wishes.largest_fragment)
    gather, parse = featurizer.gather(), parse_block if molfiles else parse_smiles
    y: list[int] = []
    ids: dict[str, list[Any]] = {"row": [], "id": [], "smiles": []}
    skipped: list[Skipped] = []
    unlabelled = cut = 0
    for row, identity, text, label in entries:
        if is_missing(label):
            unlabelled += 1
            continue
        try:
            whole = parse(text)
        except NotAMoleculeError as error:
            skipped.append(Skipped(row, str(error), identity if molfiles else text))
            if wishes.strict:
                raise UserError(f"{path}, row {row}: {skipped[-1].text!r} is no molecule: {error}") from None
            continue
        molecule = featurizer.trim(whole)
        cut += molecule is not whole
        featurizer.add(gather, molecule)
        y.append(classes.code[label])
        for column, value in zip(
            ids.values(), (row, identity, Chem.MolToSmiles(whole) if molfiles else text), strict=True
        ):
            column.append(value)
    if not y:
        raise UserError(f"{path}: not one row is a molecule; the first, row {skipped[0].row}: {skipped[0].reason}")
    counts = {UNREAD: len(skipped), UNLABELLED: unlabelled, CUT: cut}
    graphs = gather.graph_set(name, y, classes.names)
    graphs = replace(graphs, dropped=graphs.dropped | {what: count for what, count in counts.items() if count})
    if not any(ids["id"]):
        del ids["id"]
    return Imported(graphs, ids, skipped, featurizer.to_json())
