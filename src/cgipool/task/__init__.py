"""The task: what is predicted for a graph. It provides targets, loss, metrics and predictions."""
