"""The handful of graph operations that every method is made of."""

from cgipool.ops.library import degree, dots, keep_top_k, lookup, maximum, propagate, spread, sums

__all__ = ["degree", "dots", "keep_top_k", "lookup", "maximum", "propagate", "spread", "sums"]
