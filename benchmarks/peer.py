"""The peer: the network as a competent PyG user writes it, with PyG's own layers, loader and data set.

    python benchmarks/peer.py NCI1 PROTEINS     # TUDataset's processing time, then seconds per epoch of CGIPool

It shares no code with the library. The pooling methods are in peer_methods.py. The archives are read from
$CGIPOOL_DATA, by default ../shared/data/tu.
"""

import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import OneHotDegree

from peer_methods import LEVELS, make_body

WIDTH, RATIO, ALPHA, DROPOUT = 128, 0.8, 1e-3, 0.5  # the paper's; it takes alpha = 1 on PROTEINS
BATCH_SIZE, LR, WEIGHT_DECAY = 128, 1e-3, 1e-4  # the batch size is the released code's, the paper names none
STRONG_BATCH_SIZE, STRONG_DROPOUT, SMOOTHING, AVERAGE = 64, 0.3, 0.1, 0.99  # recipe strong for molecules
MAX_DEGREE = {"IMDB-BINARY": 135, "IMDB-MULTI": 88, "COLLAB": 491}  # of the coalesced graphs, over the whole data set


class PeerNetwork(nn.Module):
    """head(body(graphs)): the body is the method's, the head an MLP. Gives (logits, the method's own loss).

    The body of all but set2set, dgcnn and strong is three times GCN, ReLU, pool, with the readouts [max ‖ mean] summed;
    strong is CGIPool by the library's recipe of that name for molecules.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        method: str = "cgi",
        sizes: Tensor | None = None,
        width: int = WIDTH,
        ratio: float = RATIO,
    ) -> None:
        super().__init__()
        self.body = make_body(method, in_channels, width, ratio, sizes)
        self.dropout = STRONG_DROPOUT if method == "strong" else DROPOUT
        read = 2 * LEVELS * width if method == "strong" else 2 * width
        self.head = nn.ModuleList(
            [nn.Linear(read, width), nn.Linear(width, width // 2), nn.Linear(width // 2, num_classes)]
        )

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        readout, own_loss = self.body(data)
        x = self.head[0](readout).relu()
        x = F.dropout(x, p=self.dropout, training=self.training)
        x = self.head[1](x).relu()
        return self.head[2](x), own_loss


def unpack(archive: Path, root: Path) -> str:
    """Put the archive's files where `TUDataset.download` would have left them; the data set's name."""
    raw = root / archive.stem / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as members:
        for member in members.namelist():
            if member.endswith(".txt"):
                (raw / Path(member).name).write_bytes(members.read(member))
    return archive.stem


def build(name: str, root: Path, features: bool = True) -> TUDataset:
    """`TUDataset` over unpacked files. To time loading, time it alone, without features, on a root never processed.

    Node labels come one-hot from TUDataset. The social sets have none, so their degrees are made one-hot by a
    `pre_transform`: once, when processing, and never again in an epoch (as a `transform` it would run for every graph
    of every epoch). The price is memory: for COLLAB 0.7 GB of features (372 k nodes × 492 columns), and a peak near
    7 GB while TUDataset processes its 24.6 M edge lines.
    """
    pre_transform = OneHotDegree(MAX_DEGREE[name]) if features and name in MAX_DEGREE else None
    return TUDataset(str(root), name, pre_transform=pre_transform)


def load_peer(archive: Path, root: Path) -> TUDataset:
    """The data set in a local archive NAME.zip, unpacked and processed under root/NAME."""
    return build(unpack(archive, root), root)


def make_optimizer(model: nn.Module, weight_decay: float = WEIGHT_DECAY) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=LR, weight_decay=weight_decay)


def train_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    own_weight: float,
    average: AveragedModel | None = None,
) -> float:
    """One pass over the loader; the loss averaged over graphs. With an average of the weights, labels are smoothed."""
    smoothing = 0.0 if average is None else SMOOTHING
    model.train()
    device = next(model.parameters()).device
    total, graphs = torch.zeros((), device=device), 0
    for data in loader:
        data = data.to(device)
        optimizer.zero_grad()
        logits, own_loss = model(data)
        loss = F.cross_entropy(logits, data.y, label_smoothing=smoothing) + own_weight * own_loss
        loss.backward()
        optimizer.step()
        if average is not None:
            average.update_parameters(model)
        total += loss.detach() * data.num_graphs  # read once, at the end: no synchronisation per step
        graphs += data.num_graphs
    return float(total) / graphs


def make_epoch(dataset: TUDataset, method: str = "cgi", device: str = "cpu") -> Callable[[], float]:
    """A function that trains one epoch on 80 % of the data set and gives its loss."""
    train = dataset.shuffle()[: int(0.8 * len(dataset))]
    sizes = torch.tensor([data.num_nodes for data in train])
    strong = method == "strong"
    loader = DataLoader(train, batch_size=STRONG_BATCH_SIZE if strong else BATCH_SIZE, shuffle=True)
    model = PeerNetwork(dataset.num_features, dataset.num_classes, method, sizes).to(device)
    optimizer = make_optimizer(model, 0.0 if strong else WEIGHT_DECAY)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE), use_buffers=True) if strong else None
    alpha = 1.0 if dataset.name == "PROTEINS" else ALPHA
    own_weight = alpha if method in ("cgi", "strong") else 1.0
    return lambda: train_epoch(model, loader, optimizer, own_weight, average)


def main(names: list[str], epochs: int = 5) -> None:
    """Time loading and `epochs` epochs on 80 % of each data set, after one epoch to warm up."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data" / "tu"
    archives = Path(os.environ.get("CGIPOOL_DATA", default))
    for name in names:
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as root:
            unpack(archives / f"{name}.zip", Path(root))
            start = time.perf_counter()
            dataset = build(name, Path(root))
            loading = time.perf_counter() - start
        epoch = make_epoch(dataset)
        seconds = []
        for _ in range(epochs + 1):
            start = time.perf_counter()
            loss = epoch()
            seconds.append(time.perf_counter() - start)
        median = sorted(seconds[1:])[epochs // 2]
        print(f"{name}: TUDataset {loading:.2f} s, epoch {median:.3f} s, loss {loss:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["NCI1", "PROTEINS", "IMDB-MULTI"])
