"""Tables that the commands print on stdout. Does not import torch."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from cgipool.data.describe import DISCARDED, ONE_WAY
from cgipool.data.further import few
from cgipool.errors import counted, rounded
from cgipool.task.metrics import described, ordered, titles_of, written

if TYPE_CHECKING:
    from cgipool.contract import Finding
    from cgipool.data import CatalogueEntry
    from cgipool.explain.demo import DemoResult
    from cgipool.training.result import Result

FEW = 20
"""Each split has its own row if there are at most this many."""


def plain_table(*headings: str, left: int = 1) -> Table:
    """A table whose first `left` columns hold text and whose other columns hold numbers."""
    table = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right")
    return table


def result_tables(result: "Result", title: str, out: Path | None, metric: str | None = None) -> list[Table | str]:
    """The closing tables of a run: metrics over splits, the splits one by one if there are few, costs. `metric` is
    shown first, by default the primary one."""
    rows, n, first = result.rows, len(result.rows), metric or result.primary
    titles = {name: words.format(result.positive) for name, words in titles_of(result.task).items()}
    heading = f"{result.dataset} · {title} · recipe {result.recipe} · seed {result.seed}"
    summary = plain_table("test", "mean", "SD", "SE")
    for name in ordered(result.task, first):
        if name in result.metrics:
            summary.add_row(titles[name], *(written(name, value) for value in result.summary(name)))
    heading += f" · {counted(n, 'split')}"
    many = result.ensemble > 1
    heading += f" · ensemble of {result.ensemble}" if many else ""
    shown: list[Table | str] = ["", heading, "", summary, ""]
    if 1 < n <= FEW:
        words = f"test {titles[first]}"
        each = plain_table("split", "epochs", "best epoch", "validation loss", words, "seconds", left=0)
        for row, score in zip(rows, result.column(first), strict=True):
            numbers = (rounded(row["val_loss"], 4), written(first, score), rounded(row["seconds"], 1))
            each.add_row(str(row["split"]), str(row["epochs"]), str(row["best_epoch"]), *numbers)
        shown += [each, ""]
    epochs = [row["epochs"] for row in rows]
    span = f" ({min(epochs)} to {max(epochs)})" if n > 1 else ""
    plain = result.to_json()
    shown.append(
        f"epochs {np.mean(epochs):.4g}{span} · training epoch {1000 * plain['epoch_seconds']:.0f} ms · "
        f"trained for {result.seconds:.1f} s · {plain['parameters']:,} parameters"
    )
    if many:
        known = [value for members in result.member_accuracy for value in members if value is not None]
        alone = described(result.primary, float(np.mean(known)) if known else None, 2)
        shown.append(f"a single member: {alone} on average; epochs are those of the longest")
    if result.columns:
        where = "--json shows" if out is None else f"{out / 'result.json'} has"
        shown.append(f"metrics are means over {len(result.columns)} target columns; {where} those of each column")
    return [*shown, f"saved in {out}"] if out else shown


def findings_table(findings: Iterable["Finding"]) -> Table:
    """The findings of the contract rules."""
    words = {True: "yes", False: "no", None: "–"}
    table = Table("rule", "ok", "what was found", box=None, pad_edge=False)
    for rule, ok, finding in findings:
        table.add_row(rule, words[ok], Text(finding, overflow="fold"))
    return table


def catalogue_table(catalogue: Mapping[str, "CatalogueEntry"], places: Mapping[str, str]) -> Table:
    """The data sets known by name; `places` says where each is on this machine."""
    table = plain_table("name", "family", "graphs", "classes", left=2)
    table.add_column("location")
    table.add_column("what it is")
    for name, entry in catalogue.items():
        about = entry.description + (" (in the paper)" if entry.in_paper else "")
        table.add_row(name, entry.family, f"{entry.graphs:,}", str(entry.classes), places[name] or "–", about)
    return table


def info_table(described: Mapping[str, Any]) -> Table:
    """A description of a data set, one fact per line."""
    return facts_table(_facts(described))


def facts_table(facts: Iterable[tuple[str, str]]) -> Table:
    """Names and words, one fact per line."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, words in facts:
        table.add_row(name, Text(words))
    return table


def _facts(d: Mapping[str, Any]) -> list[tuple[str, str]]:
    nodes, edges, twins, called = d["node_columns"], d["edge_columns"], d["duplicates"], d["column_names"]
    kind = "directed" if d["directed"] else "each counted once"
    facts = [
        ("name", d["name"]),
        ("graphs", f"{d['graphs']:,}"),
        ("nodes", f"{d['nodes']:,}, {d['nodes_per_graph']:.2f} per graph"),
        ("", f"from {d['smallest']} to {d['largest']}, median {d['median']:g}; {d['isolated_nodes']:,} isolated"),
        ("edges", f"{d['edges']:,}, {d['edges_per_graph']:.2f} per graph ({kind})"),
        *(_targets(d["targets"]) if d["targets"] else _classes(d["classes"])),
        ("node labels", _columns(nodes["labels"], called.get("category", ()))),
        ("node attributes", _floats(nodes["attributes"], called.get("attributes", ()))),
    ]
    if nodes["truth"]:
        facts.append(("node truth", "which nodes decide the class is known"))
    facts += [
        ("edge labels", _columns(edges["labels"], called.get("edge_category", ()))),
        ("edge attributes", _floats(edges["attributes"], called.get("edge_attributes", ()))),
        ("edge weights", "yes" if edges["weight"] else "none"),
    ]
    if d["columns"]:
        facts.append(("other columns", few(d["columns"])))
    if d["note"]:
        facts.append(("note", d["note"]))
    dropped = ", ".join(f"{what}: {count:,}{_meaning(what)}" for what, count in d["dropped"].items() if count)
    seen = "1-WL can tell without attributes" if nodes["attributes"] else "1-WL can tell"
    facts += [
        ("changed on reading", dropped or "nothing"),
        ("duplicates", f"{counted(twins['distinct'], 'distinct graph')}, as far as {seen}"),
        ("", f"{twins['with_twin']:,} graphs have a twin{_conflicts(twins['conflicting'])}"),
    ]
    if twins["conflicting"]:
        facts.append(("", f"so at most {100 * twins['ceiling']:.1f} % of the graphs can be classified correctly"))
    return facts


def _meaning(what: str) -> str:
    """Explain a change on reading if its name is not clear."""
    return f" ({DISCARDED})" if what == ONE_WAY else ""


def _conflicts(kinds: int | None) -> str:
    if kinds is None:
        return ""
    return f"; {counted(kinds, 'kind')} of twins {'differs' if kinds == 1 else 'differ'} in class"


def _targets(targets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The target columns, at most a dozen."""
    lines = [
        f"{t['name']}: {t['known']:,} values from {t['smallest']:g} to {t['largest']:g}, mean {t['mean']:.4g}"
        for t in targets[:12]
        if t["known"]
    ]
    lines += [f"and {len(targets) - 12} more"] if len(targets) > 12 else []
    return [("targets" if place == 0 else "", line) for place, line in enumerate(lines)]


def _classes(classes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    lines = [f"{c['name']}: {counted(c['graphs'], 'graph')}, {100 * c['share']:.1f} %" for c in classes]
    return [("classes" if place == 0 else "", line) for place, line in enumerate(lines or ["not known"])]


def _columns(labels: list[int], known: Sequence[str]) -> str:
    """The number of values of each label column, with its name if it has one."""
    names = known or [f"column {j}" for j in range(len(labels))]
    return "; ".join(f"{name}: {counted(count, 'value')}" for name, count in zip(names, labels, strict=True)) or "none"


def _floats(count: int, known: Sequence[str]) -> str:
    if not count:
        return "none"
    return counted(count, "column") + (f": {', '.join(known)}" if known else "")


def demo_tables(shown: "DemoResult") -> list[Table | str]:
    """The results of the demo."""
    table = plain_table("share of nodes that the pooling kept", "of the motif, %", "at random, %")
    for level, (motif, chance) in enumerate(zip(shown.motif, shown.chance, strict=True), 1):
        table.add_row(f"after level {level}", f"{100 * motif:.1f}", f"{100 * chance:.1f}")
    accuracy = f"test accuracy {100 * shown.accuracy:.1f} % on {shown.graphs} graphs; chance is "
    accuracy += f"{100 / shown.classes:.0f} % with {shown.classes} classes"
    return ["", accuracy, "", table, "", f"picture: {shown.picture}"]
