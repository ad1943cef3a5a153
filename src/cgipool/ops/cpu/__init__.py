"""The graph operations by torch, NumPy and loops that Numba compiles: what each one computes on a CPU.

Shapes: C positions (the nodes of a batch, then padding), B graphs, E neighbour entries, F features, M columns,
V categories.
Positions of one graph are consecutive: graph b holds slot_ptr[b] .. slot_ptr[b+1]. The neighbours of position p are
neighbor[row_ptr[p] .. row_ptr[p+1]], the node itself not among them, and the relation is symmetric. Padding is never
alive, has no neighbours, stands behind the last graph, and bears that graph's number.
"""
