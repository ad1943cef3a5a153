"""The graph operations as Triton kernels: the signatures of ops/cpu, every tensor with a split axis S in front.

A program of a kernel never writes what another one writes, and no float is added atomically, so results do not depend
on scheduling.
"""

from cgipool.data.caches import keep_kernels_local

keep_kernels_local()
