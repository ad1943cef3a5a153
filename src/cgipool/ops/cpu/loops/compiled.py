"""How a loop is compiled."""

import numba

SHAPES = "the shapes of the arguments of a graph operation do not fit"

loop = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract"})
"""Sums may be reordered, so that they are vectorised: always in the same way on one machine. Loops use one thread:
Numba's threads and those of torch would wait for each other."""
