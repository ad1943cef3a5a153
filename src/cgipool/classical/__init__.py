"""Classical methods: features that are computed once, and a model of scikit-learn instead of a network.

Each is fitted on the training graphs of a split, chooses its settings on the validation graphs, and is stored as plain
arrays.
"""

from cgipool.classical.base import Classical, Examples, Fitted
from cgipool.classical.forest import Forest
from cgipool.classical.kernel import Kernel
from cgipool.classical.svm import DescriptorMachine
from cgipool.data.descriptors import ecfp_bits, ecfp_counts, rdkit_descriptors

__all__ = ["MODELS", "Classical", "Examples", "Fitted"]

MODELS: dict[str, Classical] = {
    "wl": Kernel(assignment=False),
    "wl-oa": Kernel(assignment=True),
    "ecfp-rf": Forest("ecfp-rf", ecfp_bits),
    "ecfp-count-rf": Forest("ecfp-count-rf", ecfp_counts),
    "rdkit-rf": Forest("rdkit-rf", rdkit_descriptors),
    "rdkit-et": Forest("rdkit-et", rdkit_descriptors, extra=True),
    "rdkit-svm": DescriptorMachine(),
}
"""By the name of the method in `cgipool.pool.METHODS`."""
