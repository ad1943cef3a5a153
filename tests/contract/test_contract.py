"""The contract: every registered method keeps it, and each way of breaking it is found by its rule."""

from pathlib import Path

import broken
import pytest
import torch

from cgipool import contract
from cgipool.contract import FAST, RULES, broken_rules, check_method, slow_because
from cgipool.errors import UserError
from cgipool.pool import NETWORKS

NOT_APPLICABLE = {
    "random": {"node order"},
    "structure-free": {"aligned", "edge data"},
    "majority": {"aligned", "edge data", "gradients", "overfits"},
    **{name: {"edge data"} for name in ("asap", "diffpool", "mincut")},
}
"""Of a method that draws in evaluation, of a model without pools, of one without weights, of pools that make edges."""


def line_of(cls: type) -> str:
    """FILE:LINE of the line of a broken pool that its comment points at."""
    lines = Path(broken.__file__).read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"class {cls.__name__}("))
    number = next(n for n in range(start, len(lines)) if "# the line that is found" in lines[n])
    return f"broken.py:{number + 1}"


@pytest.mark.parametrize("name", NETWORKS)
def test_every_method_keeps_the_contract(name: str) -> None:
    findings = check_method(name)
    assert [finding.rule for finding in findings] == list(RULES)
    wrong = [finding for finding in findings if finding.ok is False]
    assert not wrong, wrong
    assert {finding.rule for finding in findings if finding.ok is None} == NOT_APPLICABLE.get(name, set())
    assert (broken_rules(findings), slow_because(findings)) == ([], None)


def test_a_sound_pool_of_ones_own() -> None:
    findings = check_method("broken:Sound")
    assert all(finding.ok for finding in findings), findings


@pytest.mark.parametrize(
    ("cls", "rule", "said"),
    [
        (broken.OverTheBatch, "batch", "depend on the other graphs of the batch"),
        (broken.TorchRand, "draws", "torch's global generator"),
        (broken.Dropout, "draws", "torch's global generator"),
        (broken.Unreached, "gradients", "no gradient reaches pools.*.choice.bias, pools.*.choice.weight"),
        (broken.NotFinite, "gradients", "is not finite"),
        (broken.Rolled, "aligned", "features of dropped nodes must be 0"),
        (broken.Shuffled, "edge data", "the remaining edges have the data of other edges"),
        (broken.WrongSize, "aligned", "sizes must be the number of living nodes"),
        (broken.First, "node order", "the order of the nodes, as they do if scores of different nodes tie"),
        (broken.Forgetful, "save and load", "the state_dict does not contain everything"),
        (broken.Constant, "overfits", "of 32 graphs of motifs are classified correctly after"),
        (broken.RaisesWithoutEdges, "batch", "LookupError: no edges (tests/contract/broken.py:"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_each_break_is_found_by_its_rule(cls: type, rule: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the other rules, of which only the first, which comes before all of them, has a part in it."""
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setattr(contract, "RULES", {name: RULES[name] for name in RULES if name in ("aligned", rule)})
    finding = check_method(f"broken:{cls.__name__}")[-1]
    assert (finding.rule, finding.ok) == (rule, False)
    assert said in finding.message
    assert rule in broken_rules([finding])


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (broken.TooFew, "not [positions, d] ="),
        (broken.NoPooled, "a pool must return Pooled(x, level), not a tuple"),
        (broken.Raises, "ZeroDivisionError: on purpose"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_network_that_does_not_run_is_told_once(cls: type, said: str) -> None:
    first, *rest = check_method(f"broken:{cls.__name__}")
    assert (first.rule, first.ok) == ("aligned", False)
    assert said in first.message
    if cls is broken.Raises:
        assert line_of(cls) in first.message
    assert {finding.message for finding in rest} == {"not tried, because the network does not run"}
    assert broken_rules([first, *rest]) == ["aligned"]


@pytest.mark.parametrize(
    ("cls", "operation"),
    [
        (broken.Reads, "a value read back"),
        (broken.Indexes, "boolean indexing"),
        (broken.Assigns, "boolean indexing"),
        (broken.ReadsInBackward, "a value read back"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_keeps_a_pool_out_of_the_fast_engine(cls: type, operation: str) -> None:
    name = cls.__name__ if cls is not broken.ReadsInBackward else "Careless"
    findings = check_method(f"broken:{cls.__name__}")
    assert broken_rules(findings) == []
    reason = slow_because(findings)
    assert reason is not None
    assert reason.startswith(operation)
    assert reason.endswith(line_of(getattr(broken, name)))
    assert {finding.rule for finding in findings if finding.ok is False} <= set(FAST)


def test_the_process_is_left_as_it_was() -> None:
    torch.manual_seed(7)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    check_method("broken:Raises")
    check_method("none")
    assert torch.equal(state, torch.get_rng_state())
    assert (torch.get_default_dtype(), torch.get_num_threads()) == (torch.float32, threads)


def test_an_unknown_name() -> None:
    with pytest.raises(UserError, match="unknown method 'sagg'; did you mean 'sag'"):
        check_method("sagg")
