"""The paper form against an independent float64 NumPy program: forward, selections, and gradients."""

import numpy as np
import pytest
import torch

from cgipool.model.network import Network
from oracles import paper
from small import Case, clear_graphs, double, kept_by_graph, objective, random_case, random_network, traced

ALPHA = 0.7
"""Large, so that an error in the gradient of L_MI would show beside the cross-entropy's."""


def arrays(network: Network) -> paper.Params:
    return {name: value.detach().double().numpy().copy() for name, value in network.state_dict().items()}


def answers(params: paper.Params, case: Case, ratio: float, mi: str) -> list[paper.Oracle]:
    graphs = range(case.graphs.n_graphs)
    return [paper.forward(params, case.adjacency(g), case.features(g), ratio, mi) for g in graphs]


@pytest.mark.oracle("cgi", "cgi-nomi")
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("mi", ["gan", "kl"])
@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("kind", ["floats", "labels", "both"])
def test_forward(kind: str, ratio: float, mi: str, compact: bool) -> None:
    compared = 0
    for seed in range(3):
        case = random_case(seed, kind)
        network = random_network(case.size, seed, ratio=ratio, mi=mi, compact=compact).eval()
        batch = case.batch()
        output, steps = traced(network, batch)
        expected = answers(arrays(network), case, ratio, mi)

        np.testing.assert_allclose(output.logits, [e.logits for e in expected], rtol=0, atol=1e-5)
        per_level = np.mean([e.mi for e in expected], 0)
        np.testing.assert_allclose(output.metrics["mi"], per_level, rtol=0, atol=1e-5)
        np.testing.assert_allclose(output.own_loss, per_level.mean(), rtol=0, atol=1e-5)
        for graph in clear_graphs(steps, gap=1e-6):
            mine = [kept_by_graph(step.after, batch)[graph] for step in steps]
            assert mine == [nodes.tolist() for nodes in expected[graph].kept]
            compared += 1
    assert compared >= 6, "nearly every cut went through a tie"


def test_forward_at_the_papers_width() -> None:
    case = random_case(11, "both", sizes=(30, 1, 17, 25), edgeless=(2,), density=0.15)
    network = random_network(case.size, 11, width=128).eval()
    output, _ = traced(network, case.batch())
    expected = answers(arrays(network), case, 0.8, "gan")
    np.testing.assert_allclose(output.logits, [e.logits for e in expected], rtol=0, atol=1e-5)
    np.testing.assert_allclose(output.metrics["mi"], np.mean([e.mi for e in expected], 0), rtol=0, atol=1e-5)


def test_overlap_of_the_two_selections() -> None:
    case = random_case(51, sizes=(12, 9, 10, 8), edgeless=(), density=0.25)
    network = random_network(case.size, 51, ratio=0.6, width=16).eval()
    output, steps = traced(network, case.batch())
    assert clear_graphs(steps, gap=1e-4) == [0, 1, 2, 3]
    expected = answers(arrays(network), case, 0.6, "gan")
    for level, overlap in enumerate(output.metrics["overlap"].tolist()):
        chosen = [(e.kept_r[level], e.kept_f[level]) for e in expected]
        assert overlap == pytest.approx(np.mean([len(np.intersect1d(r, f)) / len(r) for r, f in chosen]))
        assert overlap < 1.0


def selections(params: paper.Params, case: Case, ratio: float, mi: str) -> list[list[int]]:
    return [
        nodes.tolist()
        for answer in answers(params, case, ratio, mi)
        for nodes in (*answer.kept, *answer.kept_r, *answer.kept_f)
    ]


@pytest.mark.parametrize(
    ("kind", "ratio", "mi", "compact"),
    [
        ("floats", 0.5, "gan", True),
        ("floats", 0.8, "kl", False),
        ("labels", 0.8, "gan", True),
        ("both", 0.3, "kl", True),
        ("both", 1.0, "gan", False),
    ],
)
def test_gradient_is_the_slope_of_the_oracle(kind: str, ratio: float, mi: str, compact: bool) -> None:
    case = random_case(21, kind)
    network = random_network(case.size, 21, ratio=ratio, mi=mi, dropout=0.0, compact=compact).double().train()
    batch = double(case.batch())
    objective(network(batch), batch, torch.ones(3, dtype=torch.float64), ALPHA).backward()

    params = arrays(network)
    graphs = [(case.adjacency(g), case.features(g), int(y)) for g, y in enumerate(case.graphs.y)]
    chosen = selections(params, case, ratio, mi)
    generator, eps, compared = np.random.default_rng(21), 1e-6, 0
    for name, parameter in network.named_parameters():
        slopes, gradients = [], []
        # The largest entry of the gradient, as most of a one-hot weight's are 0, and some others.
        largest = int(parameter.grad.abs().argmax())
        for entry in {largest, *generator.integers(0, parameter.numel(), 4).tolist()}:
            ends = []
            for sign in (1.0, -1.0):
                moved = params | {name: params[name].copy()}
                moved[name].flat[entry] += sign * eps
                if selections(moved, case, ratio, mi) != chosen:
                    break
                ends.append(paper.loss(moved, graphs, ratio, ALPHA, mi))
            if len(ends) == 2:
                slopes.append((ends[0] - ends[1]) / (2.0 * eps))
                gradients.append(parameter.grad.flatten()[entry].item())
        np.testing.assert_allclose(gradients, slopes, rtol=1e-4, atol=1e-8, err_msg=name)
        compared += len(slopes)
    assert compared >= 3 * len(params), "nearly every perturbation changed a selection"


def test_loss_is_the_oracles() -> None:
    case = random_case(3)
    network = random_network(case.size, 3, dropout=0.0).double().train()
    batch = double(case.batch())
    ours = objective(network(batch), batch, torch.ones(3, dtype=torch.float64), ALPHA)
    graphs = [(case.adjacency(g), case.features(g), int(y)) for g, y in enumerate(case.graphs.y)]
    assert ours.item() == pytest.approx(paper.loss(arrays(network), graphs, 0.8, ALPHA), rel=1e-12)
