"""The handful of graph operations that every method is made of."""

from cgipool.ops.library import degree, dots, keep_top_k, lookup, propagate, readout, spread, sums, take

__all__ = ["degree", "dots", "keep_top_k", "lookup", "propagate", "readout", "spread", "sums", "take"]
