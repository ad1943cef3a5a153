"""Classify NetworkX graphs (ladders and random trees): cross-validate, save and load the model."""

import networkx as nx
import numpy as np
from sklearn.model_selection import cross_val_score

from cgipool import GraphClassifier

rng = np.random.default_rng(0)
graphs = [nx.ladder_graph(int(rng.integers(4, 12))) for _ in range(60)]
graphs += [nx.random_labeled_tree(int(rng.integers(8, 24)), seed=int(rng.integers(1 << 30))) for _ in range(60)]
labels = ["ladder"] * 60 + ["tree"] * 60

model = GraphClassifier(method="cgi", width=16, epochs=15, lr=0.01)
print("accuracy of three folds:", cross_val_score(model, graphs, labels, cv=3).round(2))

model.fit(graphs, labels).save("shapes.safetensors")
loaded = GraphClassifier.load("shapes.safetensors")
print("a ladder of 20 nodes is a", loaded.predict([nx.ladder_graph(10)])[0])
