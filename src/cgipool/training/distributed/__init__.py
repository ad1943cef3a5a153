"""Training of one model by several processes, on one machine or many, started with `torchrun`."""
