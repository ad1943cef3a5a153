"""All splits of a cell trained at once, as one captured program on a GPU."""
