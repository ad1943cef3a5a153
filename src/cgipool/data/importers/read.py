"""From a path to a set: which format it is, and its reader."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from cgipool.data.importers.imported import Imported, together
from cgipool.data.importers.options import OF_CLASSES, ImportOptions
from cgipool.data.importers.saving import Pieces, Saved, save_pieces
from cgipool.data.importers.solubility import NAME, read_solubility
from cgipool.data.names import printable
from cgipool.data.spill import IN_MEMORY, ImportProgress, Work, nobody
from cgipool.data.store import is_saved
from cgipool.errors import UserError, unknown
from cgipool.files import check_regular

Reader = Callable[[Path, str, ImportOptions, Work], Iterator[Imported]]
"""Takes the path, the name of the set, the options, and where to hold what must be held; gives piece after piece."""

TABLE = (*OF_CLASSES, "unlabelled", "max_size")
MOLECULES = (*TABLE, "strict", "largest_fragment", "id", "max_atoms")


class Format(NamedTuple):
    """A format that can be read."""

    reader: str
    """Module and function, imported when it is needed: RDKit, networkx and PyG are slow to start."""
    endings: tuple[str, ...]
    """How names of its files end."""
    options: tuple[str, ...]
    """The options it has a use for."""
    molecules: bool = False
    """Whether its graphs are molecules, which have scaffolds."""


FORMATS: dict[str, Format] = {
    "tu": Format("tu:read_tu_set", (".zip",), ("unlabelled", "max_size")),
    "smiles": Format(
        "molecular:read_smiles",
        (".csv", ".tsv", ".txt", ".smi", ".parquet", ".csv.gz", ".tsv.gz", ".smi.gz"),
        ("smiles", *MOLECULES),
        molecules=True,
    ),
    "sdf": Format("molecular:read_sdf", (".sdf", ".sd", ".sdf.gz", ".sd.gz"), MOLECULES, molecules=True),
    "graphml": Format("graphml:read_graphml", (".graphml",), TABLE),
    "edges": Format("edges:read_edges", (), (*TABLE, "strict")),
    "pyg": Format("pyg:read_pyg", (".pt", ".pth"), ("unlabelled", "max_size")),
}


def import_data(
    path: str | Path, *, form: str = "auto", name: str | None = None, wishes: ImportOptions | None = None
) -> Imported:
    """Read a data set of one's own, or `solubility` by name, into memory.

    `form` is a key of `FORMATS`, or "auto" to tell by the path. The set is called `name`, by default as its file or
    folder.
    """
    pieces, *_ = _source(path, form, name, wishes or ImportOptions())
    return together(list(pieces(IN_MEMORY)))


def import_to(
    path: str | Path,
    folder: str | Path,
    *,
    form: str = "auto",
    name: str | None = None,
    wishes: ImportOptions | None = None,
    scaffolds: tuple[int, int] | None = None,
    tell: ImportProgress = nobody,
) -> Saved:
    """Read a data set of one's own and save it to a folder, piece by piece: it may be larger than memory.

    The folder is the one that `import_data(path, …).save(folder)` writes. GraphML and PyG files are read whole.
    `scaffolds` asks for so many splits by scaffold, of a seed. `tell` hears how far it is.
    """
    pieces, called, molecules = _source(path, form, name, wishes or ImportOptions())
    if scaffolds is not None and not molecules:
        raise UserError(f"{called} is no set of molecules: it has no scaffolds to split by")
    return save_pieces(pieces, Path(folder), called, scaffolds=scaffolds, tell=tell)


def _source(path: str | Path, form: str, name: str | None, asked: ImportOptions) -> tuple[Pieces, str, bool]:
    """What gives the pieces of a data set, what it is called, and whether it is one of molecules."""
    place = Path(path)
    if form not in ("auto", *FORMATS):
        raise unknown("format", form, ("auto", *FORMATS))
    if not place.exists():
        if form == "auto" and str(path).lower() == NAME:
            asked.only(NAME, ("largest_fragment",))
            return lambda work: iter([_named(read_solubility(asked), name)]), name or NAME, True
        raise UserError(f"there is no file or folder {path}")
    check_regular(place)
    found = detect(place) if form == "auto" else form
    asked.only(found, FORMATS[found].options)
    module, function = FORMATS[found].reader.split(":")
    read: Reader = getattr(import_module(f"cgipool.data.importers.{module}"), function)
    called = printable(name or _stem(place))
    return partial(read, place, called, asked), called, FORMATS[found].molecules


def detect(path: Path) -> str:
    """The format of a file by its ending, of a folder by the files in it."""
    if not path.is_dir():
        for form, known in FORMATS.items():
            if path.name.lower().endswith(known.endings):
                return form
        endings = ", ".join(ending for known in FORMATS.values() for ending in known.endings)
        raise UserError(f"{path}: files ending in {endings} can be imported; name another's format with --format")
    if is_saved(path):
        raise UserError(f"{path} is a saved GraphSet already; every command takes it as it is")
    for pattern, form in (("*_A.txt", "tu"), ("edges.csv", "edges"), ("*.graphml", "graphml")):
        if any(path.glob(pattern)):
            return form
    raise UserError(f"{path} holds neither NAME_A.txt (TU), edges.csv with graphs.csv, nor .graphml files")


def _stem(path: Path) -> str:
    """The name of a file without its ending, or of a folder."""
    full = path.resolve().name
    endings = [ending for known in FORMATS.values() for ending in known.endings if full.lower().endswith(ending)]
    return full[: -len(max(endings, key=len))] if endings and not path.is_dir() else full


def _named(imported: Imported, name: str | None) -> Imported:
    return imported if name is None else replace(imported, graphs=replace(imported.graphs, name=name))
