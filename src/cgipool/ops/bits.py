"""The adjacency of near-dense graphs as bits.

Shapes: C positions, W words. Bit i of bits[p, w] says whether p has an edge to the position 32 w + i of its graph.
"""

import numpy as np

WORD = 32
"""Bits in a word."""


def words_for(nodes: int) -> int:
    """Return the number of words of a row over this many nodes."""
    return -(-nodes // WORD)


def adjacency_bits(node_ptr: np.ndarray, edge_ptr: np.ndarray, displacement: np.ndarray, words: int) -> np.ndarray:
    """[N, W] int32: the bits of every node of a data set, from its edges as `GraphSet` holds them."""
    bits = np.zeros((len(edge_ptr) - 1, words), np.uint32)
    if words == 0:
        return bits.view(np.int32)
    source = np.repeat(np.arange(len(edge_ptr) - 1), np.diff(edge_ptr))
    first = np.repeat(node_ptr[:-1], np.diff(node_ptr))
    target = source + displacement - first[source]
    # Each edge occurs once, so adding its bit sets it, which is much faster than `bitwise_or.at`.
    place, bit = source * words + target // WORD, np.left_shift(1, target % WORD, dtype=np.int64)
    bits += np.bincount(place, weights=bit, minlength=bits.size).reshape(bits.shape).astype(np.uint32)
    return bits.view(np.int32)
