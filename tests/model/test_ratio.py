"""How many nodes a ratio keeps, held to exact fractions, and which of them where scores tie."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from cgipool.data import GraphSet
from cgipool.model.level import kept_of
from cgipool.nn import TopKPooling
from small import case_of, random_network

NODES = torch.arange(10_001)


@pytest.mark.parametrize("hundredths", range(1, 101))
def test_hundredths_are_exact(hundredths: int) -> None:
    n = NODES.numpy()
    expected = -(-n * hundredths // 100)
    assert kept_of(NODES, float(f"{hundredths / 100:.2f}")).tolist() == expected.tolist()


@pytest.mark.parametrize("text", ["0.123456789", "0.333", "0.999999999", "1e-09", "0.625"])
def test_other_decimals_are_exact(text: str) -> None:
    share = Fraction(text)
    n = [1, 2, 3, 999, 1000, 10**6, 3 * 10**9]
    expected = [-(-i * share.numerator // share.denominator) for i in n]
    assert kept_of(torch.tensor(n), float(text)).tolist() == expected


@pytest.mark.parametrize("tenths", range(1, 11))
def test_tenths_are_what_floating_point_gave(tenths: int) -> None:
    before = torch.ceil(NODES.double() * (tenths / 10)).long()
    assert torch.equal(kept_of(NODES, tenths / 10), before)


@pytest.mark.parametrize(("part", "whole"), [(1, 3), (2, 3), (5, 6), (3, 7)])
def test_a_quotient_stands_for_itself(part: int, whole: int) -> None:
    """5/6 is written 0.8333333333333334, but five of six nodes are meant."""
    assert kept_of(torch.tensor([whole]), part / whole).tolist() == [part]


def test_stacked_splits() -> None:
    sizes = torch.stack([NODES[:1000], NODES[:1000].flip(0)])
    assert torch.equal(torch.vmap(lambda size: kept_of(size, 0.55))(sizes), kept_of(sizes, 0.55))


def test_layers_keep_as_many() -> None:
    out = TopKPooling(4, ratio=0.55)(torch.randn(20, 4), torch.zeros(2, 0, dtype=torch.long))
    assert len(out.perm) == 11


def clique(values: list[float]) -> GraphSet:
    """Nodes that all have the same neighbours, with these attributes."""
    attributes = np.array([[v, -v, 1.0, v * v] for v in values], np.float32)
    return GraphSet.from_edges("clique", [3], [0, 0, 1], [1, 2, 2], [0], class_names=("0",), attributes=attributes)


@pytest.mark.parametrize(("conv", "matters"), [("gcn", False), ("gin", False), ("gcn-root", True), ("sage", True)])
def test_where_the_order_of_tied_nodes_matters(conv: str, matters: bool) -> None:
    """As docs/reference/methods.md says."""
    answers = []
    for values in ([0.5, -1.0, 2.0], [2.0, 0.5, -1.0]):
        case = case_of(clique(values))
        network = random_network(case.size, 3, method="sag", conv=conv, ratio=1, levels=1).eval()
        answers.append(network(case.batch()).logits)
    assert torch.allclose(*answers, atol=1e-6) != matters
