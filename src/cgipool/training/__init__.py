"""Training: recipes, the loop over epochs of one split, and runs over many splits in a folder."""
