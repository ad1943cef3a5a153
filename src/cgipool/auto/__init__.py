"""`cgipool fit --auto`: try baselines, classical methods and networks in a budget, and keep the best in one model."""
