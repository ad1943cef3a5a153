"""One's own data as a GraphSet: TU, tables of SMILES, SDF, GraphML, edge lists and PyG files."""

from cgipool.data.importers.imported import Imported, Skipped, featurizer_of, read_ids, read_skipped
from cgipool.data.importers.read import FORMATS, import_data, import_to
from cgipool.data.importers.saving import Saved
from cgipool.data.importers.wishes import Wishes

__all__ = [
    "FORMATS",
    "Imported",
    "Saved",
    "Skipped",
    "Wishes",
    "featurizer_of",
    "import_data",
    "import_to",
    "read_ids",
    "read_skipped",
]
