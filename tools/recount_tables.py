"""What each generated table should say: for a row of the page, the numbers of each of its cells.

An expected cell is a tuple of numbers, with the mark as a last text where the table has marks; None stands for a dash.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np

from recount_cells import Cell, Place, Results, Study, mark, tested
from recount_statistics import detectable, equivalence, floor, gap, ranks, se, variances

Expected = list[tuple[Any, ...] | None]
Rows = list[list[str]]

PUBLISHED = "published"


def _level(cell: Cell | None, sign: str = "") -> tuple[Any, ...] | None:
    return None if cell is None else (cell.values.mean(), se(cell.values), sign)


def _minus(cell: Cell | None, other: float | None) -> tuple[Any, ...] | None:
    """A reference mean, and ours minus it."""
    if other is None:
        return None
    return (other,) if cell is None else (other, cell.values.mean() - other)


def _at(study: Study, head: list[str], label: str, column: str) -> Place | None:
    """The place of a cell of a table, by the names of its row and its column."""
    at = dict(zip(head[0].split(" · "), label.split(" · "), strict=True))
    free = [axis for axis, values in study.axes.items() if axis not in at and (len(values) > 1 or axis != "method")]
    at[free[-1]] = column.removeprefix(f"{free[-1]} ")
    method = at.pop("method", study.baseline)
    return study.of(method, at.pop("dataset"), **at)


def _sign(study: Study, place: Place) -> str:
    found = study.against.get((place.at["method"], *study.rest(place)))
    return "" if found is None else mark(-found[0].mean, found[1])


def accuracy(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Mean ± SE with marks; below, the published mean and ours minus it."""
    expected: list[Expected] = []
    label = ""
    for row in rows:
        below = row[0] == PUBLISHED
        label = label if below else row[0]
        places = [_at(study, head, label, column) for column in head[1:]]
        if below:
            expected.append([p and p.published and _minus(p.cell, p.published[0]) for p in places])
        else:
            expected.append([p and _level(p.cell, _sign(study, p)) for p in places])
    return expected


def recipes(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Below each method: recipe paper, the published mean, and the gain of an ensemble."""
    expected: list[Expected] = []
    label = ""
    for row in rows:
        label = label if row[0] in ("recipe paper", PUBLISHED, "ten together") else row[0]
        line: Expected = []
        for dataset in head[1:]:
            place = study.of(label, dataset)
            assert place is not None
            if row[0] == "recipe paper":
                paper = results.by_the_paper(study.named(label), dataset)
                line.append(paper and _minus(place.cell, paper.values.mean()))
            elif row[0] == PUBLISHED:
                line.append(place.published and _minus(place.cell, place.published[0]))
            elif row[0] == "ten together":
                ten = results.studies["ensembles"].cell(study.named(label), dataset)
                line.append(ten and ((ten.whole - ten.members.mean(1)).mean(),))
            else:
                line.append(_level(place.cell, _sign(study, place)))
        expected.append(line)
    return expected


def means(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Means alone, and the published ones of CGIPool."""
    expected: list[Expected] = []
    for label, *_ in rows:
        if label == "CGIPool, published":
            places = [study.of("cgi", dataset) for dataset in head[1:]]
            expected.append([p and p.published and p.published[:1] for p in places])
        else:
            cells = [study.cell(label, dataset) for dataset in head[1:]]
            expected.append([cell and (cell.values.mean(),) for cell in cells])
    return expected


def against(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Difference, interval, splits, p and adjusted p."""
    expected: list[Expected] = []
    for method, dataset, *_ in rows:
        one, p = study.against[study.named(method), dataset]
        expected.append([(one.mean,), one.interval(), (one.df + 1,), (one.p,), (p,), (mark(-one.mean, p),)])
    return expected


def equivalences(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Two one-sided tests with the margin of the study."""
    p = {place: equivalence(one, study.margin) for place, (one, _) in study.against.items()}
    order = sorted(p, key=p.__getitem__)
    stepped = np.maximum.accumulate([p[place] * (len(p) - rank) for rank, place in enumerate(order)])
    adjusted = dict(zip(order, np.minimum(stepped, 1.0).tolist(), strict=True))
    expected: list[Expected] = []
    for method, dataset, *_ in rows:
        place = study.named(method), dataset
        one = study.against[place][0]
        verdict = "yes" if adjusted[place] < 0.05 else "not shown"
        expected.append([(one.mean,), one.interval(0.9), (p[place],), (adjusted[place],), (verdict,)])
    return expected


def power(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """What a comparison detects, alone and among all."""
    found = [study.against[study.named(method), dataset][0] for method, dataset, *_ in rows]
    return [
        [(one.se,), (detectable(one.se, one.df, 0.05),), (detectable(one.se, one.df, 0.05 / len(rows)),)]
        for one in found
    ]


def seeds(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Variance between splits and between trainings."""
    cells = [study.cell(method, dataset) for method, dataset, *_ in rows]
    found = [cell.members for cell in cells if cell]
    return [[(m.shape[1],), (m.mean(),), *((value,) for value in variances(m))] for m in found]


def average_ranks(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Average ranks, and who is within the critical difference."""
    average, _, _, critical = ranks_of(study, rows)
    expected: list[Expected] = []
    for row, own in zip(rows, average, strict=True):
        near = {other[0] for other, rank in zip(rows, average, strict=True) if abs(rank - own) <= critical} - {row[0]}
        listed = ", ".join(title for title in study.titles.values() if title in near)
        expected.append([(listed or "–",), (own,)])
    return expected


def ranks_of(study: Study, rows: Rows) -> tuple[list[float], float, float, float]:
    """Of the methods in the rows of a table, in their order."""
    table = [[study.cell(row[0], dataset) for dataset in study.axes["dataset"]] for row in rows]
    return ranks([[cell.values.mean() if cell else np.nan for cell in line] for line in table])


def gaps(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Ours against published, with the errors of both."""
    expected: list[Expected] = []
    for method, dataset, *_ in rows:
        place = study.of(method, dataset)
        assert place
        assert place.cell
        assert place.published
        mean, spread, cell = place.published[0], place.published[1] or 0.0, place.cell
        tests = float(np.mean([row["graphs"]["test"] for row in cell.splits]))
        difference, error, low, high = gap(cell.values, mean, spread, tests)
        own = [(cell.values.mean(),), (mean,), (spread,), (floor(mean, tests),)]
        expected.append([*own, (difference,), (error,), (low, high)])
    return expected


def _paired(found: dict[Any, Any], place: Any) -> tuple[Any, ...] | None:
    """A difference of the method and its error, with its mark, from comparisons that have the method first."""
    return (
        None
        if place not in found
        else (found[place][0].mean, found[place][0].se, mark(found[place][0].mean, found[place][1]))
    )


def _matrix(study: Study, head: list[str], rows: Rows, other: Callable[[str, str], Cell | None]) -> list[Expected]:
    pairs = {(p.at["method"], p.at["dataset"]): (p.cell, other(p.at["method"], p.at["dataset"])) for p in study.places}
    found = tested(pairs)
    return [[_paired(found, (study.named(label), dataset)) for dataset in head[1:]] for label, *_ in rows]


def gained(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Minus recipe paper."""
    return _matrix(study, head, rows, results.by_the_paper)


def controls(results: Results, _: None, head: list[str], rows: Rows) -> list[Expected]:
    """Minus no pooling, recipe paper."""
    none = results.studies["controls"]
    return _matrix(results.studies["table1"], head, rows, lambda _, dataset: none.cell("none", dataset))


def ensembles(results: Results, _: None, head: list[str], rows: Rows) -> list[Expected]:
    """Ensembles minus the mean of their members."""
    study = results.studies["ensembles"]
    members = {p.key: Cell(p.key + "members", p.cell.content, True) for p in study.places if p.cell}
    of = {(p.at["method"], p.at["dataset"]): p.key for p in study.places}
    return _matrix(study, head, rows, lambda method, dataset: members.get(of[method, dataset]))


def classical(results: Results, _: None, head: list[str], rows: Rows) -> list[Expected]:
    """Kernels and their distance to no pooling with recipe strong."""
    study, strong = results.studies["classical"], results.studies["strong"]
    pairs = {(p.at["method"], p.at["dataset"]): (p.cell, strong.cell("none", p.at["dataset"])) for p in study.places}
    found, expected, label = tested(pairs), [], ""
    for row in rows:
        if row[0] == "minus no pooling":
            expected.append([_paired(found, (study.named(label), dataset)) for dataset in head[1:]])
            continue
        label = row[0]
        holder = study if label in study.titles.values() else strong
        expected.append([_level(holder.cell(label, dataset)) for dataset in head[1:]])
    return expected


def sweep(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """A setting: mean, difference to Table 1, and the accuracy of the discriminator."""
    pairs = {}
    for p in study.places:
        other = results.by_the_paper(p.at["method"], p.at["dataset"])
        if other and p.cell and other.key != p.key:
            pairs[p.key] = p.cell, other
    found, expected, label = tested(pairs), [], ""
    for row in rows:
        below = row[0] in ("minus Table 1", "discriminator accuracy")
        label = label if below else row[0]
        places = [_at(study, head, label, column) for column in head[1:]]
        if row[0] == "minus Table 1":
            expected.append([p and _paired(found, p.key) for p in places])
        elif below:
            expected.append([p and p.cell and _levels(p.cell, "discriminator_accuracy") for p in places])
        else:
            expected.append([p and _level(p.cell, _sign(study, p)) for p in places])
    return expected


def _levels(cell: Cell, name: str) -> tuple[float, ...]:
    return tuple(np.mean([row["diagnostics"][name] for row in cell.splits], axis=0).tolist())


def diagnostics(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Of CGIPool's term, by level."""
    names = ("mi", "discriminator_accuracy", "overlap")
    cells = [study.cell("cgi", dataset) for dataset, *_ in rows]
    return [[(c.content["cell"]["recipe"]["alpha"],), *(_levels(c, name) for name in names)] for c in cells if c]


def early(results: Results, study: Study, head: list[str], rows: Rows) -> list[Expected]:
    """Splits with their best epoch among the first five."""
    cells = [[study.cell(label, dataset) for dataset in head[1:]] for label, *_ in rows]
    return [[c and (sum(row["best_epoch"] <= 5 for row in c.splits),) for c in line] for line in cells]


def duplicates(results: Results, _: None, head: list[str], rows: Rows) -> list[Expected]:
    """Duplicate-aware minus random splits, which are different ones."""
    one, other = results.studies["distinct"], results.studies["table1"]
    expected: list[Expected] = []
    for label, *_rest in rows:
        pairs = [(one.cell(label, dataset), other.cell(label, dataset)) for dataset in head[1:]]
        expected.append(
            [a and b and (a.values.mean() - b.values.mean(), np.hypot(se(a.values), se(b.values))) for a, b in pairs]
        )
    return expected


def claims(results: Results, _: None, head: list[str], rows: Rows) -> list[Expected]:
    """The largest published lead over the best peer, on each kind of data set."""
    study, expected = results.studies["table1"], []
    kinds = {"social networks": ("IMDB-BINARY", "IMDB-MULTI", "COLLAB"), "bioinformatics": ("PROTEINS",)}
    for label, text, *_rest in rows:
        best: tuple[float, str, str, float] = (-np.inf, "", "", 0.0)
        for dataset in kinds.get(label, ("NCI1", "NCI109", "Mutagenicity")):
            known = {p.at["method"]: p.published[0] for p in study.places if p.at["dataset"] == dataset and p.published}
            own = known.pop("cgi")
            peer = max(known, key=known.__getitem__)
            lead = own - known[peer]
            best = max(best, (lead, dataset, study.titles[peer], 100 * lead / known[peer]))
        claimed = float(text)
        places = [
            f"{study.titles[p.at['method']]} on {p.at['dataset']}"
            for p in study.places
            if (own := study.of("cgi", p.at["dataset"])) and own.published and p.published
            if abs(own.published[0] - p.published[0] - claimed) < 0.005
        ]
        expected.append([(claimed,), (", ".join(places),), (best[0],), (best[1],), (best[2],), (best[3],)])
    return expected


def times(results: Results, _: None, head: list[str], rows: Rows) -> list[Expected]:
    """Cells that are there, those not counted above, and their seconds: summed, and covered by at least one."""
    seen: set[str] = set()
    expected: list[Expected] = []
    for name, *_rest in rows:
        last = name.startswith("both tables")
        names = ("table1", "table2", "figure3") if last else (name,)
        places = {p.key: p for part in names for p in results.studies[part].places}
        wanted = [p for part in names for p in results.studies[part].places]
        there = [p.cell for p in places.values() if p.cell]
        fresh = there if last else [cell for cell in there if cell.key not in seen]
        seen |= {cell.key for cell in fresh}
        count = (len(there), len(places)) if last else (sum(p.cell is not None for p in wanted), len(wanted))
        provenance = [cell.content["provenance"] for cell in fresh]
        legs = [leg for one in provenance for leg in one.get("legs") or [one]]
        spans = sorted((start, start + leg["seconds"]) for leg in legs for start in [_seconds(leg["started"])])
        covered, end = 0.0, -np.inf
        for start, stop in spans:
            covered += max(0.0, stop - max(start, end))
            end = max(end, stop)
        durations = ((sum(one["seconds"] for one in provenance), "time"), (covered, "time"))
        expected.append([count, None if last else (len(fresh),), *durations])
    return expected


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


TABLES: dict[str, Callable[..., list[Expected]]] = {
    "accuracy": accuracy,
    "recipes": recipes,
    "means": means,
    "against": against,
    "equivalence": equivalences,
    "power": power,
    "seeds": seeds,
    "ranks": average_ranks,
    "gaps": gaps,
    "gained": gained,
    "controls": controls,
    "ensembles": ensembles,
    "classical": classical,
    "sweep": sweep,
    "diagnostics": diagnostics,
    "early": early,
    "duplicates": duplicates,
    "claims": claims,
    "times": times,
}
"""By the name that pages use."""
