"""MoleculeNet's tables, our splits of them, and one store of results for the benchmarks of methods for molecules.

    python benchmarks/molecule_sets.py            # the table of what is stored
    python benchmarks/molecule_sets.py --against chemprop

benchmarks/chemprop.py and benchmarks/classical.py fill the store: a file per method, a row for each set and split.
Every method gets the same training, validation and test molecules. Seconds are CPU seconds of one thread, so that they
hold on a busy machine. The tables are read from $CGIPOOL_MOLECULES, by default ../shared/data/molecules.
"""

import argparse
import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.data import GraphSet, load_dataset
from cgipool.data.importers import ImportOptions
from cgipool.data.importers.read import import_cached
from cgipool.data.splits import Split, random_splits
from cgipool.study.statistics import paired, summary

HOME = Path(__file__).resolve().parents[1]
TABLES = Path(os.environ.get("CGIPOOL_MOLECULES", HOME.parent / "shared" / "data" / "molecules"))
WORK = HOME / "runs" / "molecules"
RESULTS = HOME / "benchmarks" / "results" / "molecules"

SEED = 0
TEST_TO_TRAIN = 0.1 / 0.8


@dataclass(frozen=True)
class MoleculeSet:
    """A table of MoleculeNet and its usual protocol."""

    name: str
    metric: str
    labels: tuple[str, ...]
    kind: str = "random"
    task: str = "regression"
    splits: int = 5
    smiles: str = "smiles"

    @property
    def higher(self) -> bool:
        return self.metric != "rmse"


SETS = {
    each.name: each
    for each in (
        MoleculeSet("FreeSolv", "rmse", ("expt",)),
        MoleculeSet("ESOL", "rmse", ("measured log solubility in mols per litre",)),
        MoleculeSet("Lipophilicity", "rmse", ("exp",)),
        MoleculeSet("BBBP", "roc_auc", ("p_np",), "scaffold", "classification"),
        MoleculeSet("SIDER", "roc_auc", (), task="multilabel"),
        MoleculeSet("Tox21", "roc_auc", (), task="multilabel"),
        MoleculeSet("HIV", "roc_auc", ("HIV_active",), "scaffold", "classification", splits=1),
    )
}

NOT_LABELS = ("smiles", "mol_id")
"""Columns of the multi-label tables that are no target."""

TITLES = {
    "majority": "no molecule is looked at",
    "wl": "WL subtree kernel",
    "wl-oa": "WL-OA kernel",
    "ecfp-count-rf": "random forest, ECFP4 counts",
    "rdkit-rf": "random forest, RDKit descriptors",
    "chemprop": "chemprop",
    "chemprop-5": "chemprop, ensemble of 5",
    "auto": "cgipool fit --auto",
}
"""Methods in the order of the table; others follow by their names."""


@dataclass
class Molecules:
    """A set that was read: graphs, and the rows of the table that they were made of."""

    about: MoleculeSet
    graphs: GraphSet
    labels: tuple[str, ...]
    rows: list[dict[str, str]] = field(repr=False)

    @property
    def smiles(self) -> list[str]:
        return [row[self.about.smiles] for row in self.rows]

    def splits(self, indices: Iterable[int]) -> list[Split]:
        return random_splits(self.graphs, seed=SEED, indices=indices, kind=self.about.kind)

    def value(self, split: Split, predictions: np.ndarray) -> float:
        """The metric of the set for predictions [n, O] of a split's test molecules."""
        from cgipool.task.registry import task_of

        task = task_of(self.graphs)
        return float(task.evaluate(task.targets(self.graphs, split.test), predictions)[self.about.metric])


def read(name: str) -> Molecules:
    """Import a table, or take it from the cache. Graphs are called by the number of their row."""
    about = SETS[name]
    with (TABLES / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = about.labels or tuple(column for column in rows[0] if column not in NOT_LABELS)
    numbered = WORK / f"{name}.csv"
    if not numbered.exists():
        numbered.parent.mkdir(parents=True, exist_ok=True)
        write_table(numbered, [about.smiles, *labels], rows)
    folder, _ = import_cached(numbered, ImportOptions(label=labels, task=about.task, smiles=about.smiles, id="row"))
    graphs = load_dataset(folder)
    assert graphs.graph_ids is not None
    return Molecules(about, graphs, labels, [rows[int(number)] for number in graphs.graph_ids])


def write_table(path: Path, columns: list[str], rows: Iterable[dict[str, str]]) -> None:
    """Some columns of some rows, with their numbers."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", *columns])
        writer.writerows([number, *(row[column] for column in columns)] for number, row in enumerate(rows))


def digest(split: Split) -> str:
    """A short name of the molecules of a split, so that results of other splits are never taken for these."""
    return hashlib.sha256(b"|".join(ids.tobytes() for ids in (split.train, split.val, split.test))).hexdigest()[:12]


class Store:
    """The results of one method: a JSON file with a line for each set and split."""

    def __init__(self, method: str) -> None:
        self.path = RESULTS / f"{method}.json"
        held = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.rows: list[dict[str, Any]] = held.get("rows", [])

    def has(self, name: str, split: int) -> bool:
        return any(row["set"] == name and row["split"] == split for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        order = list(SETS)
        self.rows.sort(key=lambda each: (order.index(each["set"]), each["split"]))
        lines = ",\n  ".join(json.dumps(each) for each in self.rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(f'{{\n "rows": [\n  {lines}\n ]\n}}\n')


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What both benchmarks take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)} (default: all)")
    parser.add_argument("--splits", type=int, metavar="N", help="only the first N splits of each set")
    return parser


def wanted(options: argparse.Namespace, method: str) -> Iterator[tuple[Molecules, Split]]:
    """The sets and splits that a method has no result for."""
    for name in options.sets or SETS:
        count = min(options.splits or SETS[name].splits, SETS[name].splits)
        for index in range(count):
            if not Store(method).has(name, index):
                molecules = read(name)  # anew, so that what a training computes of its molecules is counted each time
                yield molecules, molecules.splits([index])[0]


def table(against: str = "auto") -> list[list[str]]:
    """By set and method: the metric with its standard error, the difference, and what it costs."""
    stored = {path.stem: Store(path.stem).rows for path in sorted(RESULTS.glob("*.json"))}
    methods = [*(name for name in TITLES if name in stored), *(name for name in stored if name not in TITLES)]
    found = []
    for name, about in SETS.items():
        of = {method: [row for row in stored[method] if row["set"] == name] for method in methods}
        values = {method: {row["split"]: row["value"] for row in rows} for method, rows in of.items()}
        for method in methods:
            if of[method]:
                costs = _costs(of[method])
                cells = [_level(about, list(values[method].values())), *_against(about, values, method, against)]
                found.append([name, TITLES.get(method, method), *cells, *costs])
    return found


def _number(about: MoleculeSet, value: float) -> str:
    return f"{100 * value:.1f}" if about.higher else f"{value:.3f}"


def _level(about: MoleculeSet, values: list[float]) -> str:
    found = summary(values)
    return _number(about, found.mean) + (f" ± {_number(about, found.se)}" if found.se is not None else "")


def _against(about: MoleculeSet, values: dict[str, dict[int, float]], method: str, against: str) -> list[str]:
    """How many splits, and the mean difference to the method compared with, with its corrected interval."""
    n = str(len(values[method]))
    if method == against or not values.get(against):
        return [n, "", ""]
    found = paired(values[method], values[against], test_to_train=TEST_TO_TRAIN)
    if found is None:
        return [n, "", ""]
    low, high = _number(about, found.low), _number(about, found.high)
    mark = " ▲" if (found.low > 0) == about.higher else " ▼"
    return [n, _number(about, found.difference), f"{low} to {high}{mark if found.low * found.high > 0 else ''}"]


def _costs(rows: list[dict[str, Any]]) -> list[str]:
    """CPU seconds of a training, molecules predicted in a second, and size of the model."""
    rates = [row["rate"] for row in rows if row.get("rate")]
    rate = f"{np.median(rates):,.0f}" if rates else ""
    return [
        f"{np.mean([row['cpu'] for row in rows]):,.0f}",
        rate,
        f"{np.mean([row['bytes'] for row in rows]) / 1e6:.2f}",
    ]


HEADS = ["set", "method", "metric", "splits", "difference", "95 % interval", "CPU s", "molecules/s", "MB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="auto", metavar="METHOD", help="default: %(default)s")
    options = parser.parse_args()
    print("| " + " | ".join(HEADS) + " |")
    print("| --- | --- |" + " ---: |" * (len(HEADS) - 2))
    for row in table(options.against):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
