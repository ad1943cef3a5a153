"""Graphs as flat arrays: reading, converting, caching, splitting and encoding data sets."""

from cgipool.data.catalogue import CATALOGUE, CatalogueEntry
from cgipool.data.describe import describe, wl_classes
from cgipool.data.encoded import Inputs
from cgipool.data.features import Encoder
from cgipool.data.fetch import cache_folder, fetch
from cgipool.data.generated import motifs
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import Split, fold_splits, random_splits, read_splits, scaffold_splits, write_splits
from cgipool.data.tu import read_tu

__all__ = [
    "CATALOGUE",
    "CatalogueEntry",
    "Encoder",
    "GraphSet",
    "Inputs",
    "Split",
    "cache_folder",
    "describe",
    "fetch",
    "fold_splits",
    "load_dataset",
    "motifs",
    "random_splits",
    "read_splits",
    "read_tu",
    "scaffold_splits",
    "wl_classes",
    "write_splits",
]
