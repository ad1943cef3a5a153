"""Whether two commits train the same weights, bit for bit.

    python benchmarks/weights.py > before     (at one commit)
    python benchmarks/weights.py > after      (at the other)
    diff before after

Trains ten methods for two epochs on a CPU with one thread: recipe paper on PROTEINS, released on IMDB-BINARY and strong
on NCI1. Each line is the SHA-256 of a trained model's tensors and test predictions. Bits depend on the processor and on
torch's version, so run both on one machine. Archives: $CGIPOOL_DATA, by default ../shared/data/tu. Takes two minutes.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

from cgipool import load_dataset, train
from cpu import DATA

METHODS = ("cgi", "cgi-rs", "none", "topk", "sag", "asap", "vip", "diffpool", "mincut", "dgcnn")
RECIPES = {"PROTEINS": "paper", "IMDB-BINARY": "released", "NCI1": "strong"}


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for name, value in sorted(load_file(folder / "weights.safetensors").items()):
        found.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
    found.update(np.load(folder / "probabilities.npy").tobytes())
    return found.hexdigest()


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        graphs = load_dataset(DATA / f"{name}.zip")
        for method in METHODS:
            with tempfile.TemporaryDirectory() as folder:
                train(graphs, method=method, recipe=RECIPES[name], epochs=2, out=Path(folder, "run"))
                found = digest(Path(folder, "run", "split-000"))
            print(f"{name:12} {RECIPES[name]:9} {method:9} {found}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(RECIPES))
