"""The cells of a study as Ray tasks, on this machine or on a cluster."""
