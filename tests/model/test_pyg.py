"""PyG as the oracle: the layers, the selected nodes and the kept edges."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.nn import GCNConv, GraphConv, SAGEConv
from torch_geometric.nn.pool.connect.filter_edges import filter_adj
from torch_geometric.nn.pool.select.topk import topk

from cgipool.model import layers
from cgipool.model.level import Level
from small import Case, Step, adjacency, clear_graphs, kept, random_case, random_network, rows, traced

WIDTH, OUT = 6, 5

PEERS = {"gcn": (layers.GCN, GCNConv), "sage": (layers.SAGE, SAGEConv), "graph": (layers.GraphConv, GraphConv)}


def peer(name: str, layer: nn.Module, inputs: int, out: int) -> nn.Module:
    """PyG's layer with the weights of ours."""

    def matrix(linear: nn.Module) -> Tensor:
        return linear.weight.T if isinstance(linear, layers.InputLinear) else linear.weight

    theirs = PEERS[name][1](inputs, out)
    if name == "gcn":
        weights = {"lin.weight": matrix(layer.linear), "bias": layer.bias}
    else:
        neighbors, root = ("lin_l", "lin_r") if name == "sage" else ("lin_rel", "lin_root")
        weights = {
            f"{neighbors}.weight": matrix(layer.neighbors),
            f"{neighbors}.bias": layer.bias,
            f"{root}.weight": matrix(layer.root),
        }
    theirs.load_state_dict(weights)
    return theirs


def layer_of(name: str, width: layers.Width, out: int) -> nn.Module:
    layer = PEERS[name][0](width, out)
    nn.init.uniform_(layer.bias, -1.0, 1.0)  # a GCN's starts at 0, which would hide it
    return layer


def pyg_batch(case: Case, ids: list[int]) -> PyGBatch:
    graphs = case.graphs.to_pyg()
    return PyGBatch.from_data_list([graphs[i] for i in ids])


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def case() -> Case:
    return random_case(4, "both", sizes=(8, 1, 6, 15, 3, 10), edgeless=(2,))


IDS = [3, 1, 5, 2, 0]
"""A batch is some of the graphs in any order."""


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("out", [OUT, 2 * WIDTH], ids=["narrower", "wider"])
def test_layer(case: Case, name: str, out: int) -> None:
    batch, theirs = case.batch(IDS), pyg_batch(case, IDS)
    layer = layer_of(name, WIDTH, out)
    x = torch.randn(theirs.num_nodes, WIDTH)
    expected = peer(name, layer, WIDTH, out)(x, theirs.edge_index)
    torch.testing.assert_close(layer(x, Level.whole(batch)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("kind", ["labels", "floats", "both"])
def test_input_layer_against_one_hot_columns(name: str, kind: str) -> None:
    case = random_case(6, kind)
    batch, theirs = case.batch(IDS), pyg_batch(case, IDS)
    layer = layer_of(name, case.size, OUT)
    x = torch.from_numpy(np.concatenate([case.features(i) for i in IDS])).float()
    expected = peer(name, layer, case.size.width, OUT)(x, theirs.edge_index)
    torch.testing.assert_close(layer(batch, Level.whole(batch)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PEERS)
def test_layer_gradients(case: Case, name: str) -> None:
    batch, theirs = case.batch(IDS), pyg_batch(case, IDS)
    layer = layer_of(name, WIDTH, OUT)
    other = peer(name, layer, WIDTH, OUT)
    x = torch.randn(theirs.num_nodes, WIDTH)
    ours, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    weight = torch.randn(theirs.num_nodes, OUT)
    (layer(ours, Level.whole(batch)) * weight).sum().backward()
    (other(expected, theirs.edge_index) * weight).sum().backward()
    torch.testing.assert_close(ours.grad, expected.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.bias.grad, other.get_parameter("bias" if name == "gcn" else _bias(name)).grad)


def _bias(name: str) -> str:
    return "lin_l.bias" if name == "sage" else "lin_rel.bias"


def pooled(case: Case, ratio: float | int, form: str = "paper", compact: bool = False) -> list[Step]:
    conv = "sage" if form == "released" else "gcn"
    network = random_network(case.size, 9, ratio=ratio, form=form, conv=conv, compact=compact, width=32)
    return traced(network.eval(), case.batch(IDS))[1]


def induced(case: Case, nodes: Tensor) -> Tensor:
    """[2, E] the edges among these positions of the batch, renumbered."""
    whole = pyg_batch(case, IDS)
    return filter_adj(whole.edge_index, None, nodes, num_nodes=whole.num_nodes)[0]


both_ways = pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])


@both_ways
@pytest.mark.parametrize("name", PEERS)
def test_layer_on_a_coarsened_level(case: Case, name: str, compact: bool) -> None:
    for step in pooled(case, 0.6, compact=compact):
        alive, level = rows(step.after), step.after
        layer = layer_of(name, WIDTH, OUT)
        # What stands at dropped nodes must not be read.
        x = torch.full((len(level.alive), WIDTH), 7.0)
        x[alive] = torch.randn(len(alive), WIDTH)
        expected = peer(name, layer, WIDTH, OUT)(x[alive], induced(case, kept(level)))
        torch.testing.assert_close(layer(x, level)[alive], expected, rtol=1e-5, atol=1e-5)


@both_ways
@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.6, 0.8, 2, 5])
def test_selected_nodes(case: Case, ratio: float | int, form: str, compact: bool) -> None:
    steps, batch = pooled(case, ratio, form, compact), case.batch(IDS)
    clear = torch.tensor(clear_graphs(steps, gap=0.0))  # PyG's order of equal scores is not defined
    assert len(clear) >= 3
    for before, result in steps:
        alive = rows(before)
        # In double, as PyG rounds ratio · n in the precision of the scores.
        score = result.scores["y_d"][alive].double()
        chosen = topk(score, ratio, before.graph[alive]).sort().values
        theirs, ours = before.position[alive][chosen], kept(result.level)
        assert len(ours) == len(theirs)
        ours, theirs = (nodes[torch.isin(batch.graph[nodes], clear)] for nodes in (ours, theirs))
        torch.testing.assert_close(ours, theirs)


@both_ways
@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.0])
def test_kept_edges(case: Case, ratio: float, form: str, compact: bool) -> None:
    for step in pooled(case, ratio, form, compact):
        nodes = kept(step.after)
        expected = torch.zeros(len(nodes), len(nodes))
        expected[tuple(induced(case, nodes))] = 1.0
        torch.testing.assert_close(adjacency(step.after), expected)
