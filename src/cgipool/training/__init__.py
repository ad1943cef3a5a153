"""Training: recipes, the loop over epochs for one split, and runs over many splits in a folder."""
