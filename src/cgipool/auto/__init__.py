"""`cgipool fit --auto`: try a baseline, classical methods and networks within a time budget, and blend the best."""
