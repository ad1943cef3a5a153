"""What is predicted for a graph. Everything above asks the task for targets, loss, metrics and predictions."""
