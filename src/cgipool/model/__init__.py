"""The network: convolutions, norms, readouts, levels of pooled graphs, and how they are put together."""
