"""Import your own data: TU, tables of SMILES, SDF, GraphML, edge lists and PyG files."""

from cgipool.data.importers.imported import (
    Imported,
    ImportOptions,
    Saved,
    Skipped,
    featurizer_of,
    read_ids,
    read_skipped,
)
from cgipool.data.importers.read import FORMATS, import_data, import_to

__all__ = [
    "FORMATS",
    "ImportOptions",
    "Imported",
    "Saved",
    "Skipped",
    "featurizer_of",
    "import_data",
    "import_to",
    "read_ids",
    "read_skipped",
]
