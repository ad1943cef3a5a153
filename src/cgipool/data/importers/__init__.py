"""One's own data as a GraphSet: TU, tables of SMILES, SDF, GraphML, edge lists and PyG files."""

from cgipool.data.importers.imported import Imported, Skipped, check_target, featurizer_of, read_ids
from cgipool.data.importers.read import FORMATS, import_data
from cgipool.data.importers.wishes import Wishes

__all__ = ["FORMATS", "Imported", "Skipped", "Wishes", "check_target", "featurizer_of", "import_data", "read_ids"]
