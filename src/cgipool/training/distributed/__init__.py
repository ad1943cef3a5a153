"""One model trained by several processes, on one machine or many, as `torchrun` starts them."""
