"""Studies: a file that names cells (method × data set × settings), a store of their results, statistics over it."""
