"""A trained model in use: its file, predictions, the scikit-learn classes, the authors' released weights."""
