"""The network: convolutions, norms, readouts, levels of pooled graphs, and the code that assembles them."""
