"""The contract of pooling methods: rules that can be checked on every method, including a user's own."""

import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from cgipool.contract.aligned import aligned, edge_data
from cgipool.contract.fast import splits, static_shapes
from cgipool.contract.learns import gradients, overfits
from cgipool.contract.same import alone, draws, node_order, padding, save_and_load
from cgipool.contract.subject import Broken, NotApplicable, batch_of, graphs_of, network_of, precision
from cgipool.errors import UserError
from cgipool.pool import method_named
from cgipool.pool.own import one_line
from cgipool.training.parallel import one_thread

__all__ = ["FAST", "RULES", "Finding", "broken_rules", "check_method", "slow_because"]


class Finding(NamedTuple):
    """The result of a rule."""

    rule: str
    ok: bool | None
    """None: the rule does not apply."""
    message: str
    """One line: what was observed, what is wrong, or why the rule does not apply."""


Rule = Callable[[str], str]
"""Takes a method's name and returns what was observed; raises `Broken` or `NotApplicable`."""

FAST: dict[str, Rule] = {"splits": splits, "static shapes": static_shapes}
"""Rules of the fast engine. A method that fails one of these satisfies the contract but trains in the plain loop."""

RULES: dict[str, Rule] = {
    "aligned": aligned,
    "node order": node_order,
    "batch": alone,
    "padding": padding,
    "gradients": gradients,
    "draws": draws,
    "save and load": save_and_load,
    "overfits": overfits,
    "edge data": edge_data,
    **FAST,
}


def check_method(name: str) -> list[Finding]:
    """Run all rules on a method, given by name or as "package.module:Class". An exception in the method is a finding of
    the rule that caused it. If the network does not run at all, all rules after the first say so."""
    if method_named(name).classical:
        raise UserError(f"{name} is not a pooling method, so the contract does not apply to it")
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also where warnings are errors, only the rules decide
        first, *rest = RULES
        findings = [_finding(first, name)]
        if findings[0].ok is False and not _runs(name):
            return findings + [Finding(rule, None, "not tried, because the network does not run") for rule in rest]
        return findings + [_finding(rule, name) for rule in rest]


def broken_rules(findings: Iterable[Finding]) -> list[str]:
    """Return the rules that failed, except those of the fast engine."""
    return [finding.rule for finding in findings if finding.ok is False and finding.rule not in FAST]


def slow_because(findings: Iterable[Finding]) -> str | None:
    """Return why the fast engine cannot run the method; None if it can."""
    # Static shapes come last and name a line of code, so they are the better reason.
    reasons = [finding.message for finding in findings if finding.rule in FAST and not finding.ok]
    return reasons[-1] if reasons else None


def _finding(rule: str, name: str) -> Finding:
    try:
        with precision(torch.float64):
            return Finding(rule, True, RULES[rule](name))
    except NotApplicable as reason:
        return Finding(rule, None, str(reason))
    except Broken as reason:
        return Finding(rule, False, str(reason))
    except Exception as error:
        return Finding(rule, False, one_line(error))


def _runs(name: str) -> bool:
    try:
        with precision(torch.float64):
            network_of(name).eval()(batch_of(graphs_of()))
    except Exception:
        return False
    return True
