"""The statistics of a study as tables. Each says what its errors refer to: these graphs, or new graphs like these."""

from collections.abc import Iterator, Mapping

from cgipool.errors import counted, rounded
from cgipool.report.blocks import NOTHING, Block, accuracy, interval, number, probability, unit
from cgipool.report.comparisons import LEVEL, Comparison
from cgipool.report.view import CellResult, View
from cgipool.study import power
from cgipool.study.nested import BEST, BEST_TITLE, chosen

CORRECTED = (
    "p: corrected resampled t-test (Nadeau and Bengio 2003), because random splits share training graphs. Estimand: "
    "new graphs like these."
)

ONE_DIVISION = (
    "Splits by time are the same division of the graphs with other random draws: their intervals and p do not cover "
    "the choice of the test graphs."
)


def blocks_of(view: View) -> list[Block]:
    """All tables of a study, starting with the results."""
    return [accuracy(view), *(block for block in _statistics(view) if block.rows)]


def _statistics(view: View) -> Iterator[Block]:
    yield _paired(view)
    yield _contrasts(view)
    yield _equivalence(view)
    yield _power(view)
    yield _choices(view)
    yield _chosen_methods(view)
    yield _seeds(view)
    yield _ensembles(view)
    yield _ranks(view)
    yield _improvement(view)
    yield _gaps(view)


def _paired(view: View) -> Block:
    rows = [
        [
            view.title(entry.method),
            entry.context,
            number(entry.against.paired.difference, entry.digits, sign=True),
            interval(entry.against.paired.low, entry.against.paired.high, entry.digits),
            *_tested(entry.against),
        ]
        for entry in _compared(view)
        if entry.against
    ]
    by_time = any(entry.record and entry.record.cell.get("split_kind") == "time" for entry in _compared(view))
    words = [
        f"{view.baseline} minus each method on the same splits, {unit(view.metric)}, with its 95 % interval.",
        CORRECTED,
        *([ONE_DIVISION] if by_time else []),
        f"Holm: p adjusted for the {counted(len(rows), 'comparison')} of this study. ▲ the method is better, "
        "▼ it is worse.",
    ]
    head = ["method", "on", "difference", "95 % interval", "splits", "p", "p, Holm", "mark"]
    return Block(f"{view.baseline} against the others", words, head, rows, left=2)


def _contrasts(view: View) -> Block:
    families = view.study.analysis.contrasts
    rows = [
        [
            view.title(one.method),
            one.family + (f" · {one.setting}" if one.setting else ""),
            number(one.pooled.difference, one.metric.digits, sign=True),
            number(one.pooled.se, one.metric.digits),
            interval(one.pooled.low, one.pooled.high, one.metric.digits),
            probability(one.pooled.p),
            probability(one.adjusted),
            one.mark,
        ]
        for one in view.contrasts
    ]
    named = "; ".join(f"{name}: {', '.join(datasets)}" for name, datasets in families.items())
    words = [
        f"{view.baseline} minus each method, {unit(view.metric)}: the mean over the data sets of a family, with its "
        f"95 % interval. {named}.",
        "The study file defines the families. A family with missing cells is left out. The errors of data sets are "
        "corrected as above and combined as independent.",
        "Estimand: new graphs like those of these data sets, not other data sets.",
        f"Holm: p adjusted for the {counted(len(rows), 'contrast')}. ▲ the method is better, ▼ it is worse.",
    ]
    head = ["method", "family", "difference", "SE", "95 % interval", "p", "p, Holm", "mark"]
    return Block("Contrasts over families of data sets", words, head, rows, left=2)


def _equivalence(view: View) -> Block:
    margin = view.study.analysis.margin
    rows = []
    for entry in _compared(view):
        if entry.equivalence and entry.against:
            test, adjusted = entry.equivalence
            rows.append([view.title(entry.method), entry.context])
            rows[-1].append(number(entry.against.paired.difference, entry.digits, sign=True))
            rows[-1] += [interval(test.low, test.high, entry.digits), probability(test.p), probability(adjusted)]
            rows[-1].append("yes" if adjusted < LEVEL else "not shown")
    words = [
        f"Whether {view.baseline} and each method differ by less than {number(margin)}, {unit(view.metric)}: two "
        "one-sided corrected t-tests (TOST). Estimand: new graphs like these.",
        f"The 90 % interval lies within ± the margin if p is below {LEVEL}. Holm: p adjusted for the "
        f"{counted(len(rows), 'comparison')}. “Not shown” does not mean different.",
    ]
    head = ["method", "on", "difference", "90 % interval", "p", "p, Holm", "equivalent"]
    return Block("Equivalence", words, head, rows, left=2)


def _power(view: View) -> Block:
    compared = [entry for entry in _compared(view) if entry.against and entry.against.paired.se]
    rows = []
    for entry in compared:
        if entry.against:
            se, df = entry.against.paired.se, entry.against.paired.n - 1
            sizes = [power.detectable(se, df, alpha=alpha) for alpha in (LEVEL, LEVEL / len(compared))]
            numbers = [number(value, entry.digits) for value in (se, *sizes)]
            rows.append([view.title(entry.method), entry.context, *numbers])
    words = [
        f"The true difference to {view.baseline} that a comparison finds with a probability of 80 %, "
        f"{unit(view.metric)}, given its standard error. Estimand: new graphs like these.",
        f"Alone: at p below {LEVEL}. Among all: at p below {LEVEL} divided by the "
        f"{counted(len(rows), 'comparison')} of this study, about what Holm's adjustment asks of the first.",
    ]
    head = ["method", "on", "SE", "detectable alone", "detectable among all"]
    return Block("Power", words, head, rows, left=2)


def _choices(view: View) -> Block:
    entries = {entry.wanted.key: entry for entry in _in_order(view) if entry.record and entry.wanted.choices}
    own = [entry for entry in entries.values() if entry.method != BEST]
    names = list(dict.fromkeys(name for entry in own for name, _ in entry.wanted.choices))
    rows = []
    for entry in own:
        counts = chosen(entry.record) if entry.record else {}
        rows.append([view.title(entry.method), entry.context, *(str(counts.get(name, 0)) for name in names)])
    words = [
        "How many splits chose each setting, by the result on their own validation graphs. Test graphs were evaluated "
        "once, with the chosen setting.",
    ]
    return Block("Chosen settings", words, ["method", "on", *names], rows, left=2)


def _chosen_methods(view: View) -> Block:
    rows = [
        [entry.context, name, str(count)]
        for entry in _in_order(view)
        if entry.method == BEST and entry.record
        for name, count in chosen(entry.record).items()
        if count
    ]
    words = [
        f"{BEST_TITLE}: how many splits chose each method and setting, by the result on their own validation graphs. "
        "Classical methods have also chosen their own settings by these graphs, which favours them.",
    ]
    return Block("Chosen methods", words, ["on", "method and setting", "splits"], rows, left=2)


def _seeds(view: View) -> Block:
    rows = []
    first: dict[str, CellResult] = {}
    for entry in _in_order(view):
        first.setdefault(entry.wanted.key, entry)
    for entry in first.values():
        found = power.variances(entry.measured.members) if entry.measured else None
        if found and entry.measured:
            mean = _mean(entry.measured.member_means)
            numbers = (mean, found.se, found.between_splits, found.between_seeds)
            rows.append([view.title(entry.method), entry.context, str(found.seeds)])
            rows[-1] += [number(value, entry.digits) for value in numbers]
    words = [
        "Several trainings on each split: the mean of a single training ± SE (estimand: these graphs), and where its "
        "variance comes from.",
        "SD between splits: of what a split gives on average over seeds. SD between seeds: over trainings on a split.",
    ]
    head = ["method", "on", "seeds", "mean", "SE", "SD between splits", "SD between seeds"]
    return Block("Seeds", words, head, rows, left=2)


def _ensembles(view: View) -> Block:
    rows = [
        [
            view.title(entry.method),
            entry.context,
            number(_mean(entry.measured.whole), entry.digits),
            number(_mean(entry.measured.whole) + entry.members.paired.difference, entry.digits),
            number(-entry.members.paired.difference, entry.digits, sign=True),
            interval(-entry.members.paired.high, -entry.members.paired.low, entry.digits),
            *_tested(entry.members),
        ]
        for entry in {entry.wanted.key: entry for entry in _in_order(view)}.values()
        if entry.measured and entry.members
    ]
    words = [
        f"Ensembles and the mean of their members; the difference {unit(view.metric)}, with its 95 % interval.",
        CORRECTED,
        f"Holm: p adjusted for the {counted(len(rows), 'comparison')} of this table. ▲ the ensemble is better, "
        "▼ it is worse.",
    ]
    head = ["method", "on", "ensemble", "members", "difference", "95 % interval", "splits", "p", "p, Holm", "mark"]
    return Block("Ensembles against their members", words, head, rows, left=2)


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values)


def _tested(one: Comparison) -> list[str]:
    """Number of splits, p, adjusted p and mark of a comparison."""
    return [str(one.paired.n), probability(one.paired.p), probability(one.adjusted), one.mark]


def _ranks(view: View) -> Block:
    head = ["method", "not significantly different from", "average rank"]
    ranks = view.ranks
    if ranks is None:
        return Block("Average ranks", [], head, [])
    what = "result" if view.metric is None else view.metric.title
    words = [
        f"Rank of the mean {what}, 1 is best, averaged over {', '.join(ranks.datasets)}. Estimand: these data sets.",
        f"Friedman test for equal methods: χ² = {number(ranks.chi2)}, p {_equals(ranks.p)}.",
        f"Significant: ranks apart by more than the critical difference {number(ranks.critical_difference)} "
        "(Nemenyi, 5 %).",
    ]
    left_out = [view.title(method) for method in view.methods if method in view.study.analysis.trivial]
    if left_out:
        words.append(f"Without methods that do not see the structure of a graph: {', '.join(left_out)}.")
    rows = []
    for average, method in sorted(zip(ranks.average, ranks.methods, strict=True), key=lambda pair: pair[0]):
        near = {other for group in ranks.groups if method in group for other in group} - {method}
        rows.append([view.title(method), _listed(view, near), number(average)])
    return Block("Average ranks", words, head, rows, left=2)


def _listed(view: View, methods: set[str]) -> str:
    return ", ".join(view.title(method) for method in view.methods if method in methods) or NOTHING


def _equals(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {rounded(p, 3)}"


def _improvement(view: View) -> Block:
    words = [
        f"Probability that a run of {view.baseline} beats a run of the method on the same data set; ties count half "
        "(Agarwal et al. 2021).",
        "50 % means no difference; the interval is a bootstrap over runs. Estimand: these graphs.",
    ]
    rows = [
        [
            view.title(method),
            number(100 * one.probability, 1),
            interval(100 * one.low, 100 * one.high, 1),
            str(len(one.datasets)),
        ]
        for method, one in view.improvement.items()
    ]
    return Block("Probability of improvement", words, ["method", "percent", "95 % interval", "data sets"], rows)


def _gaps(view: View) -> Block:
    words = [
        f"Ours minus the published mean, {unit(view.metric)}. Published numbers: {view.study.source}.",
        "Published ± is as printed. Floor: the spread over splits expected at this accuracy from the size of our test "
        "sets alone; a published ± far below it is probably not a spread over splits.",
        "SE and interval include both uncertainties: ours, and the larger of ± and floor over 20 splits. Estimand: "
        "these graphs.",
    ]
    kinds = {str(e.record.cell.get("split_kind")) for e in view.entries if e.record and e.gap} - {"random"}
    if kinds:
        words.append(
            f"Ours are on {' and '.join(sorted(kinds))} splits, the published ones on random splits: the "
            "difference does not mean that the result failed to reproduce."
        )
    rows = []
    for entry in _in_order(view):
        if entry.gap and entry.wanted.published and entry.summary:
            mean, spread = entry.wanted.published
            gap = entry.gap
            plain = [number(value, entry.digits) for value in (entry.summary.mean, mean, spread, gap.floor)]
            signed, se = number(gap.difference, entry.digits, sign=True), number(gap.se, entry.digits)
            rows.append([view.title(entry.method), entry.context, *plain, signed, se])
            rows[-1].append(interval(gap.low, gap.high, entry.digits))
    head = ["method", "on", "ours", "published", "published ±", "floor", "difference", "SE", "95 % interval"]
    return Block("Gap to the published numbers", words, head, rows, left=2)


def _compared(view: View) -> list[CellResult]:
    """The cells that are compared with the baseline. A pair of cells that occurs in several places is listed once."""
    pairs: dict[tuple[str, str], CellResult] = {}
    for entry in _in_order(view):
        base = None if view.study.baseline is None else view.of(view.study.baseline, entry.context)
        if entry.against and base:
            pairs.setdefault((base.wanted.key, entry.wanted.key), entry)
    return list(pairs.values())


def _in_order(view: View) -> Iterator[CellResult]:
    """The cells by context, then by method."""
    for context in view.contexts:
        for method in view.methods:
            entry = view.of(method, context)
            if entry is not None:
                yield entry
