"""Rules of invariance: results do not depend on node order, the other graphs of a batch, padding, torch's generator or
saving."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from cgipool.contract.subject import (
    ROOM,
    Broken,
    NotApplicable,
    batch_of,
    graphs_of,
    logits_of,
    must_agree,
    network_of,
    only_compact,
    relabelled,
    ways,
)
from cgipool.data.batch import Batch
from cgipool.model.network import Model
from cgipool.training.checkpoint import copy_of, load_tensors, save_tensors

SEEDS = range(2)


def node_order(name: str) -> str:
    """Relabelling the nodes within graphs changes no logits."""
    for compact in ways(name):
        model = network_of(name, compact=compact)
        for seed in SEEDS:
            graphs = graphs_of(seed)
            logits = logits_of(model, batch_of(graphs))
            if not torch.equal(logits, logits_of(model, batch_of(graphs, key=1))):
                raise NotApplicable("draws random numbers in evaluation mode, which depend on the position of a node")
            must_agree(
                "the logits change with the order of the nodes, as they do if scores of different nodes tie",
                logits_of(model, batch_of(relabelled(graphs, seed))),
                logits,
            )
    return "the same logits with the nodes of each graph in another order"


def alone(name: str) -> str:
    """A graph has the same logits alone and in a batch."""
    for compact in ways(name):
        model = network_of(name, compact=compact)
        for seed in SEEDS:
            graphs = graphs_of(seed)
            order = list(reversed(range(graphs.n_graphs)))
            alone = torch.cat([logits_of(model, batch_of(graphs, [g])) for g in order])
            beside = "a graph's logits depend on the other graphs of the batch"
            must_agree(beside, logits_of(model, batch_of(graphs, order)), alone)
            must_agree(beside, logits_of(model, batch_of(graphs)), alone.flip(0))
    return "a graph has the same logits alone and in a batch"


def padding(name: str) -> str:
    """Padding, and static or compact levels, change neither the logits nor the method's own loss."""
    only_compact(name)
    static, compact = (network_of(name, compact=c, dropout=0.5) for c in (False, True))
    for training in (False, True):
        for seed in SEEDS:
            graphs = graphs_of(seed)
            exact, padded = batch_of(graphs, key=5), batch_of(graphs, key=5, room=ROOM)
            expected = _answers(static, exact, training)
            for words, model, batch in (("with padding", static, padded), ("on compact levels", compact, exact)):
                logits, own_loss = _answers(model, batch, training)
                must_agree(f"{words} the logits change", logits[: graphs.n_graphs], expected[0])
                must_agree(f"{words} the method's own loss changes", own_loss, expected[1])
    return "the same logits and own loss with padding, on static and on compact levels"


@torch.no_grad()
def _answers(model: Model, batch: Batch, training: bool) -> tuple[Tensor, Tensor]:
    output = model.train(training)(batch)
    return output.logits, output.own_loss


def draws(name: str) -> str:
    """The same key gives the same output, independent of torch's generator, whose state does not change."""
    batch = batch_of(graphs_of(), key=3)
    with torch.random.fork_rng(devices=[]):
        for compact in ways(name):
            model = network_of(name, compact=compact, dropout=0.5)
            for training in (True, False):
                seen = []
                for seed in range(2):
                    torch.manual_seed(seed)
                    before = torch.get_rng_state()
                    seen.append(_answers(model, batch, training))
                    if not torch.equal(before, torch.get_rng_state()):
                        raise Broken(
                            "draws from torch's global generator; use level.uniform, which draws by the step's key"
                        )
                for one, other in zip(*seen, strict=True):
                    if not torch.equal(one, other):
                        raise Broken("the same step gives a different output when it is repeated")
    return "the same key gives the same output, and torch's generator is not used"


def save_and_load(name: str) -> str:
    """The weights, saved and loaded into a freshly built network, give the same logits; repr names the class."""
    batch = batch_of(graphs_of())
    model, other = network_of(name, seed=0), network_of(name, seed=1)
    with tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        path = Path(folder, "weights.safetensors")
        save_tensors(path, copy_of(model), {})
        other.load_state_dict(load_tensors(path)[0])
    if not torch.equal(logits_of(model, batch), logits_of(other, batch)):
        raise Broken(
            "loaded weights give different logits: the state_dict does not contain everything that the network needs"
        )
    pools = getattr(model, "pools", None)
    pool = model if pools is None else getattr(pools[0], "layer", pools[0])
    if type(pool).__name__ not in repr(model):
        raise Broken(f"repr does not name {type(pool).__name__}")
    return "saved and loaded weights give the same logits; repr names the class"
