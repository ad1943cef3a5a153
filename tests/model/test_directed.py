"""Directed graphs: PyG on one-way edges as the oracle, in float64; both engines; what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GINEConv, SAGEConv, TransformerConv

from cgipool import GraphSet, train
from cgipool.cli import main
from cgipool.data import Inputs
from cgipool.data.batch import Batch, Batcher, Capacity
from cgipool.data.describe import describe
from cgipool.data.features import Encoder
from cgipool.data.splits import random_splits
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.model import layers
from cgipool.model.layers import InputSize
from cgipool.model.level import Level
from cgipool.training.initial import read_encoder
from cgipool.training.job import Job
from cgipool.training.loop import train_split
from cgipool.training.presets import PAPER
from cgipool.training.stacked.host import train_together
from small import double, rows

SIZES = (8, 1, 6, 12, 3, 9)
FLOATS, WIDTH, OUT = 3, 8, 6
LEVELS = ("sparse", "masked", "compact", "closed up")
SMALL: dict[str, Any] = {"width": 8, "batch_size": 16, "epochs": 2, "lr": 0.005}


def arcs(seed: int = 0, sizes: tuple[int, ...] = SIZES) -> tuple[np.ndarray, np.ndarray]:
    """One-way edges, and some both ways."""
    random, start, ends = np.random.default_rng(seed), 0, []
    for n in sizes:
        u, v = np.nonzero((random.random((n, n)) < 0.25) & ~np.eye(n, dtype=bool))
        ends.append(np.stack([u, v]) + start)
        start += n
    source, target = np.concatenate(ends, axis=1)
    return source, target


def directed_graphs(seed: int = 0, sizes: tuple[int, ...] = SIZES, directed: bool = True) -> GraphSet:
    source, target = arcs(seed, sizes)
    random = np.random.default_rng(seed + 1)
    return GraphSet.from_edges(
        "arcs", sizes, source, target, np.arange(len(sizes)) % 2, directed=directed,
        edge_attributes=random.normal(size=(len(source), FLOATS)).astype(np.float32),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def batch_of(graphs: GraphSet, room: Capacity | None = None) -> Batch:
    nothing = np.zeros((graphs.n_nodes, 0), np.int32)
    edges = Inputs(np.zeros((graphs.n_edges, 0), np.int32), 0, graphs.edge_attributes)
    return double(Batcher(graphs, Inputs(nothing, 0, None, edges)).batch(np.arange(graphs.n_graphs), 0, room))


def level_of(graphs: GraphSet, kind: str) -> Level:
    """A level of the whole set, or of what two pools with random scores left of it."""
    room = None if kind == "compact" else Capacity(60, 400, 8, 800)
    level: Level = Level.whole(batch_of(graphs, room), kind == "compact", (40, 33) if kind == "closed up" else ())
    random = torch.Generator().manual_seed(1)
    for _ in range(0 if kind == "sparse" else 2):
        score = torch.rand(len(level.alive), 1, generator=random, dtype=torch.double)
        k = level.kept(0.8)
        _, level = level.coarsen(score, score.squeeze(1), level.select(score, k).squeeze(1), k)
    return level


def test_the_direction_of_edges_is_kept() -> None:
    graphs, (source, target) = directed_graphs(), arcs()
    present = graphs.edge_weight == 1.0
    ends = graphs.edge_source[present], (graphs.edge_source + graphs.edge_disp)[present]
    assert set(zip(*ends, strict=True)) == set(zip(source, target, strict=True))
    assert set(graphs.edge_weight.tolist()) == {0.0, 1.0}
    assert graphs.dropped == {}
    for made in (graphs.subset(range(6)), GraphSet.join([graphs.subset([0, 1, 2]), graphs.subset([3, 4, 5])])):
        assert made.directed
        np.testing.assert_array_equal(made.edge_weight, graphs.edge_weight)


def test_files_and_other_libraries_keep_it(tmp_path: Path) -> None:
    graphs = directed_graphs()
    graphs.save(tmp_path / "set")
    pyg = graphs.to_pyg()
    assert sum(data.num_edges for data in pyg) == len(arcs()[0])
    again = [
        GraphSet.load(tmp_path / "set"),
        GraphSet.from_pyg(pyg, "arcs", directed=True),
        GraphSet.from_networkx(graphs.to_networkx(), "arcs", directed=True),
    ]
    for other in again:
        assert other.directed
        np.testing.assert_array_equal(other.edge_weight, graphs.edge_weight)
        np.testing.assert_array_equal(other.edge_disp, graphs.edge_disp)
    assert not GraphSet.from_pyg(pyg, "arcs").directed


def peer(name: str, layer: nn.Module) -> nn.Module:
    """PyG's layer with the weights of ours."""
    if name == "gcn":
        theirs: nn.Module = GCNConv(WIDTH, OUT)
        weights = {"lin.weight": layer.linear.weight, "bias": layer.bias}
    elif name == "sage":
        theirs = SAGEConv(WIDTH, OUT)
        weights = {"lin_l.weight": layer.neighbors.weight, "lin_l.bias": layer.bias, "lin_r.weight": layer.root.weight}
    elif name in ("gin", "gine"):
        mlp = nn.Sequential(nn.Linear(WIDTH, OUT), nn.ReLU(), nn.Linear(OUT, OUT))
        theirs = GINConv(mlp) if name == "gin" else GINEConv(mlp, edge_dim=FLOATS)
        weights = {"nn.0.weight": layer.linear.weight, "nn.0.bias": layer.bias, "eps": torch.zeros(1)}
        weights |= {"nn.2.weight": layer.second.weight, "nn.2.bias": layer.second.bias}
        weights |= {} if name == "gin" else {"lin.weight": layer.edges.weight.T, "lin.bias": torch.zeros(WIDTH)}
    else:
        theirs = TransformerConv(WIDTH, OUT // layer.heads, layer.heads, edge_dim=FLOATS)
        weights = {
            "lin_query.weight": layer.query.weight, "lin_query.bias": layer.query_bias,
            "lin_key.weight": layer.key.weight, "lin_key.bias": torch.zeros(OUT),
            "lin_value.weight": layer.value.weight, "lin_value.bias": torch.zeros(OUT),
            "lin_edge.weight": layer.edges.weight.T, "lin_skip.weight": layer.root.weight, "lin_skip.bias": layer.bias,
        }  # fmt: skip
    known = theirs.state_dict()
    theirs.load_state_dict({key: value.reshape(known[key].shape) for key, value in weights.items()})
    return theirs.double()


def arcs_left(graphs: GraphSet, level: Level) -> tuple[Tensor, Tensor, Tensor]:
    """The living positions, the edges among them that exist, as PyG has them, and their attributes."""
    alive = rows(level)
    place = torch.full((graphs.n_nodes,), -1)
    place[level.position[alive]] = torch.arange(len(alive))
    pairs = place[torch.from_numpy(np.stack([graphs.edge_source, graphs.edge_source + graphs.edge_disp]))]
    stays = (pairs >= 0).all(0) & torch.from_numpy(graphs.edge_weight > 0)
    return alive, pairs[:, stays], torch.from_numpy(graphs.edge_attributes).double()[stays]


@pytest.mark.parametrize("kind", LEVELS)
@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "gine", "transformer"])
def test_against_pyg(name: str, kind: str) -> None:
    """½ (conv_in + conv_out), and the gradients of features and weights."""
    graphs = directed_graphs(3)
    layer = layers.convolution(name, WIDTH, OUT, True, InputSize(0, FLOATS), directed=True).double()
    level = level_of(graphs, kind)
    x = torch.full((len(level.alive), WIDTH), 7.0, dtype=torch.double)
    x[rows(level)] = torch.randn(len(rows(level)), WIDTH, dtype=torch.double)
    x.requires_grad_()
    alive, pairs, features = arcs_left(graphs, level)
    assert pairs.shape[1] > 10
    assert set(map(tuple, pairs.T.tolist())) != set(map(tuple, pairs.flip(0).T.tolist()))
    more = (features,) if name in ("gine", "transformer") else ()
    ours = layer(x, level)[alive]
    both = [peer(name, part) for part in (layer.along, layer.against)]
    expected = 0.5 * (both[0](x[alive], pairs, *more) + both[1](x[alive], pairs.flip(0), *more))
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(ours)
    linear = {"sage": "neighbors", "transformer": "value"}.get(name, "linear")
    theirs = {"gcn": "lin", "sage": "lin_l", "transformer": "lin_value"}.get(name, "nn.0")
    parameters = [getattr(part, linear).weight for part in (layer.along, layer.against)]
    found = torch.autograd.grad((ours * weight).sum(), [x, *parameters])
    wanted = [x, *(part.get_parameter(f"{theirs}.weight") for part in both)]
    for one, other in zip(found, torch.autograd.grad((expected * weight).sum(), wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gcn", "gin", "gine", "transformer"])
def test_gradients_by_finite_differences(name: str) -> None:
    graphs = directed_graphs(2, (5, 4))
    layer = layers.convolution(name, 4, 4, True, InputSize(0, FLOATS), directed=True).double()
    x = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, Level.whole(batch_of(graphs))), x)


def told_by_direction(count: int = 60) -> GraphSet:
    """Stars whose edges lead to the centre, or away from it: undirected, the classes look the same."""
    y = np.arange(count) % 2
    centre = 5 * np.arange(count).repeat(4)
    leaf = centre + np.tile(np.arange(1, 5), count)
    inward = y.repeat(4) == 1
    ends = np.where(inward, leaf, centre), np.where(inward, centre, leaf)
    return GraphSet.from_edges("stars", [5] * count, *ends, y, directed=True)


def test_classes_that_only_directions_tell_apart() -> None:
    graphs = told_by_direction()
    options: dict[str, Any] = SMALL | {"epochs": 40, "lr": 0.02, "method": "topk", "levels": 2}
    found = train(graphs, **options)
    assert found.to_json()["settings"]["directed"] is True
    assert found.rows[0]["test"]["accuracy"] == 1.0
    ends = graphs.edge_source, graphs.edge_source + graphs.edge_disp
    both_ways = GraphSet.from_edges("stars", graphs.sizes, *ends, graphs.y)
    assert train(both_ways, **options).rows[0]["test"]["accuracy"] < 1.0


@pytest.mark.parametrize("conv", ["gcn", "gine"])
def test_both_engines(conv: str, tmp_path: Path) -> None:
    graphs = directed_graphs(7, tuple(np.random.default_rng(1).integers(2, 12, 40).tolist()))
    recipe = PAPER.but(**SMALL, conv=conv, directed=True, dropout=0.0)
    drawn = random_splits(graphs, seed=4, indices=range(2))
    one, other = (
        [Job("sag", recipe, split, 4, "cpu", tmp_path / way / str(split.index)) for split in drawn]
        for way in ("alone", "together")
    )
    for job in one:
        train_split(job, graphs, lambda _: None)
    train_together(other, graphs, lambda _: None)
    for a, b in zip(one, other, strict=True):
        assert read_encoder(a.folder) == read_encoder(b.folder)
        p, q = (np.load(job.folder / "probabilities.npy") for job in (a, b))
        np.testing.assert_allclose(p, q, rtol=5e-3, atol=5e-3)


def test_a_model_file_reads_directed_graphs(tmp_path: Path) -> None:
    graphs = told_by_direction()
    model = fit(graphs, method="topk", **SMALL)
    model.save(tmp_path / "model.safetensors")
    loaded = FittedModel.load(tmp_path / "model.safetensors")
    assert loaded.recipe.directed
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    undirected = GraphSet.from_edges("plain", [2], [0, 1], [1, 0], [-1], class_names=())
    with pytest.raises(UserError, match="plain is undirected, and the model reads directions: import it with --dir"):
        loaded.predict_proba(undirected)
    with pytest.raises(UserError, match="stars is directed: use directed=true, or import it without --directed"):
        train(graphs, directed=False, **SMALL)
    blind = fit(replace(graphs, directed=False, edge_weight=None), method="topk", **SMALL)
    with pytest.raises(UserError, match="stars is directed, and the model was trained on undirected graphs: import it"):
        blind.predict_proba(graphs)


def test_a_set_that_cannot_be_imported_is_not_told_to_be() -> None:
    with pytest.raises(UserError, match=r"motifs is undirected, and the model reads directions$"):
        train("motifs", directed=True, **SMALL)


@pytest.mark.parametrize(("method", "name"), [("asap", "ASAP"), ("diffpool", "DiffPool"), ("mincut", "MinCutPool")])
def test_pools_that_make_edges_are_refused(method: str, name: str) -> None:
    with pytest.raises(UserError, match=f"stars is directed, and {name} makes new edges or reads them without"):
        train(told_by_direction(), method=method, **SMALL)


def test_kernels_are_refused() -> None:
    with pytest.raises(UserError, match="wl and wl-oa need undirected edges, but stars is directed"):
        train(told_by_direction(), method="wl")


def test_the_command_line_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "cache"))
    Path("nets").mkdir()
    Path("nets/graphs.csv").write_text("graph,label\n" + "".join(f"g{g},{g % 2}\n" for g in range(20)))
    lines = [f"g{g},a,{leaf}\n" if g % 2 else f"g{g},{leaf},a\n" for g in range(20) for leaf in "bcd"]
    Path("nets/edges.csv").write_text("graph,source,target\n" + "".join(lines))
    small = ["--epochs", "2", "--width", "8", "--method", "topk"]
    assert main(["data", "import", "nets", "--directed", "--out", "set"]) == 0
    assert "60, 3.00 per graph (directed)" in capsys.readouterr().out
    assert main(["train", "set", *small]) == 0
    assert main(["train", "nets", "--directed", *small]) == 0
    assert "direction is discarded" not in capsys.readouterr().err
    assert main(["train", "nets", *small]) == 0
    assert "direction is discarded: 60 one-way edges count in both directions" in capsys.readouterr().err
    assert main(["data", "import", "nets", "--out", "plain"]) == 0
    capsys.readouterr()
    assert main(["train", "plain", "--directed", *small]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "is undirected, and the model reads directions: import it with --directed" in error


def test_colours_read_directions_and_other_encodings_do_not() -> None:
    """Leaves of the stars differ by the direction alone; a description does not call such graphs twins."""
    stars = told_by_direction()
    category = np.asarray(Encoder.fit(stars, wl=1).encode(stars).category)
    assert len(np.unique(category[stars.y[stars.node_graph] == 0], axis=0)) == 2
    assert len(np.unique(category, axis=0)) == 4
    twins = describe(stars)["duplicates"]
    assert (twins["distinct"], twins["conflicting"], twins["ceiling"]) == (2, 0, 1.0)
    graphs, plain = directed_graphs(4), directed_graphs(4, directed=False)
    one, other = (Encoder.fit(each, rwse=3, lappe=2).encode(each) for each in (graphs, plain))
    np.testing.assert_array_equal(np.asarray(one.category), np.asarray(other.category))
    np.testing.assert_array_equal(np.asarray(one.floats), np.asarray(other.floats))
