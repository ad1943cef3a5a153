"""The vocabulary of recount.toml: what an expression there may call, all of it from the cells."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from recount_cells import Cell, Place, Results, tested
from recount_statistics import Difference, corrected, detectable, floor, gap, pooled, ranks, se

SETS = ("NCI1", "NCI109", "Mutagenicity", "IMDB-BINARY", "IMDB-MULTI", "COLLAB", "PROTEINS")
MOLECULES = SETS[:3]
EIGHT = ("set2set", "dgcnn", "diffpool", "topk", "sag", "asap", "vip", "cgi")
PEERS = EIGHT[:-1]
SIX = ("cgi", "cgi-nomi", "random", "vip", "cgi-rs", "topk")

Tests = dict[Any, tuple[Difference, float]]


class Vocabulary:
    """Results of studies by short names."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def place(self, study: str, method: str, dataset: str, **at: Any) -> Place:
        """Where a study has a method."""
        found = self.results.studies[study].of(method, dataset, **at)
        assert found is not None, (study, method, dataset, at)
        return found

    def cell(self, study: str, method: str, dataset: str, **at: Any) -> Cell:
        """A cell that must be there."""
        found = self.place(study, method, dataset, **at).cell
        assert found is not None, (study, method, dataset, at)
        return found

    def splits(self, study: str, method: str, dataset: str) -> int:
        """The number of splits."""
        return len(self.cell(study, method, dataset).values)

    def mean(self, study: str, method: str, dataset: str, **at: Any) -> float:
        """Mean accuracy over the splits."""
        return float(self.cell(study, method, dataset, **at).values.mean())

    def published(self, study: str, method: str, dataset: str) -> float:
        """The published mean."""
        return (self.place(study, method, dataset).published or (np.nan,))[0]

    def gap(self, study: str, method: str, dataset: str) -> tuple[float, float, float, float]:
        """Ours minus published with the errors of both sides: difference, SE, and the interval."""
        cell = self.cell(study, method, dataset)
        mean, spread = self.place(study, method, dataset).published or (np.nan, None)
        return gap(cell.values, mean, spread or 0.0, float(np.mean([row["graphs"]["test"] for row in cell.splits])))

    def z(self, study: str, method: str, dataset: str) -> float:
        """Ours minus published, by the standard error of both."""
        difference, error, *_ = self.gap(study, method, dataset)
        return difference / error

    def gap_reach(self, study: str, dataset: str) -> float:
        """How far CGIPool's interval reaches to either side."""
        _, _, low, high = self.gap(study, "cgi", dataset)
        return (high - low) / 2

    def gap_signs(self) -> tuple[int, int, int]:
        """How many intervals of Table 1 are below 0, contain it, and are above."""
        found = [self.gap("table1", method, dataset) for method in EIGHT for dataset in SETS]
        below, above = (sum(sign * gap[3 if sign < 0 else 2] > 0 for gap in found) for sign in (-1, 1))
        return below, len(found) - below - above, above

    def paired(self, one: tuple[str, str], other: tuple[str, str], dataset: str) -> Difference:
        """One (study, method) minus another on the same splits, by the corrected test."""
        a, b = (self.cell(study, method, dataset) for study, method in (one, other))
        found = corrected(a.values - b.values, a.test_to_train)
        assert found is not None
        return found

    def pooled(self, study: str, one: str, other: str, datasets: Iterable[str] = MOLECULES) -> tuple[Any, ...]:
        """The mean difference over data sets: mean, SE, p and interval."""
        return pooled([self.paired((study, one), (study, other), dataset) for dataset in datasets])

    def term(self, study: str) -> tuple[Any, ...]:
        """CGIPool minus CGIPool without its mutual-information loss, over the data sets of a study."""
        return self.pooled(study, "cgi", "cgi-nomi", self.results.studies[study].axes["dataset"])

    def term_seeds(self, dataset: str) -> Difference:
        """The same on one data set, with five seeds."""
        return self.paired(("seeds", "cgi"), ("seeds", "cgi-nomi"), dataset)

    def levels(self, dataset: str) -> Difference:
        """No pooling minus CGIPool on 100 splits."""
        return self.paired(("levels", "none"), ("levels", "cgi"), dataset)

    def twenties(self, dataset: str) -> list[float]:
        """CGIPool's means over splits 0 to 19, 20 to 39, …"""
        values = self.cell("levels", "cgi", dataset).values
        return [float(part.mean()) for part in np.split(values, 5)]

    def kernels(self) -> Tests:
        """Kernels minus no pooling, with adjusted p."""
        places = self.results.studies["classical"].places
        strong = self.results.studies["strong"]
        return tested(
            {(p.at["method"], p.at["dataset"]): (p.cell, strong.cell("none", p.at["dataset"])) for p in places}
        )

    def kernel(self, method: str, dataset: str) -> Difference:
        """One of them."""
        return self.kernels()[method, dataset][0]

    def small(self) -> list[float]:
        """The ends of the kernels' intervals on PROTEINS and the IMDB sets."""
        found = self.kernels().items()
        left_out = (*MOLECULES, "COLLAB")
        return [end for (_, dataset), (one, _) in found if dataset not in left_out for end in one.interval()]

    def difference(self, study: str, method: str, dataset: str) -> Difference:
        """The baseline of a study minus a method."""
        return self.results.studies[study].against[method, dataset][0]

    def p(self, study: str, method: str, dataset: str, adjusted: bool = False) -> float:
        """Of this comparison."""
        one, holm = self.results.studies[study].against[method, dataset]
        return holm if adjusted else one.p

    def against(self, study: str, methods: Sequence[str] | None = None) -> list[Difference]:
        """The comparisons of a study with some methods, or all."""
        found = self.results.studies[study].against.items()
        return [one for (method, *_), (one, _) in found if methods is None or method in methods]

    def reach(self, study: str, methods: Sequence[str] | None = None) -> list[float]:
        """How far their intervals reach to either side."""
        return [one.interval()[1] - one.mean for one in self.against(study, methods)]

    def leads(self, study: str) -> tuple[int, int, int]:
        """How many published leads lie in our intervals, above them, and below."""
        signs = [self._lead(study, method, dataset) for method in PEERS for dataset in SETS]
        return signs.count(0), signs.count(1), signs.count(-1)

    def leads_above(self, study: str, *datasets: str) -> int:
        """How many of those above are on some data sets."""
        return sum(self._lead(study, method, dataset) > 0 for method in PEERS for dataset in datasets)

    def _lead(self, study: str, method: str, dataset: str) -> int:
        lead = self.published("table1", "cgi", dataset) - self.published("table1", method, dataset)
        low, high = self.difference(study, method, dataset).interval()
        return int(lead > high) - int(lead < low)

    def best_leads(self) -> list[float]:
        """CGIPool's published lead over the best peer, by data set."""
        own = [self.published("table1", "cgi", dataset) for dataset in SETS]
        best = [max(self.published("table1", method, dataset) for method in PEERS) for dataset in SETS]
        return [a - b for a, b in zip(own, best, strict=True)]

    def rank(self, study: str, methods: Sequence[str]) -> dict[str, float]:
        """Average ranks."""
        found = ranks([[self.mean(study, method, dataset) for dataset in SETS] for method in methods])
        return dict(zip(methods, found[0], strict=True))

    def gains(self) -> Tests:
        """Recipe strong minus recipe paper."""
        return tested(
            {
                (p.at["method"], p.at["dataset"]): (p.cell, self.results.by_the_paper(p.at["method"], p.at["dataset"]))
                for p in self.results.studies["strong"].places
            }
        )

    def without_pooling(self) -> Tests:
        """Every method of Table 1 minus no pooling."""
        table, none = self.results.studies["table1"].places, self.results.studies["controls"]
        return tested({(p.at["method"], p.at["dataset"]): (p.cell, none.cell("none", p.at["dataset"])) for p in table})

    def seed_sds(self) -> list[float]:
        """Standard deviations over trainings on a split."""
        cells = [place.cell for place in self.results.studies["seeds"].places if place.cell]
        return [float(np.sqrt(cell.members.var(axis=1, ddof=1).mean())) for cell in cells]

    def single_se(self, dataset: str) -> float:
        """The mean error of the comparisons of `seeds` if each seed is compared alone."""
        none = self.cell("seeds", "none", dataset)
        others = [self.cell("seeds", method, dataset).members for method in SIX]
        alone = [corrected(each, none.test_to_train) for other in others for each in (none.members - other).T]
        return float(np.mean([one.se for one in alone if one]))

    def _members(self, method: str, dataset: str) -> np.ndarray:
        cell = self.cell("ensembles", method, dataset)
        return cell.whole - cell.members.mean(1)

    def tens(self, *datasets: str, methods: Sequence[str] = (*EIGHT, "none")) -> list[float]:
        """Mean gain of ensembles over their members."""
        return [float(self._members(method, dataset).mean()) for method in methods for dataset in datasets]

    def wins(self, *datasets: str) -> tuple[int, int]:
        """On how many splits an ensemble is better, and of how many."""
        found = np.concatenate([self._members(m, dataset) for m in (*EIGHT, "none") for dataset in datasets])
        return int((found > 1e-9).sum()), len(found)

    def ten_tests(self) -> Tests:
        """Ensembles minus the mean of their members."""
        cells = {(p.at["method"], p.at["dataset"]): p.cell for p in self.results.studies["ensembles"].places if p.cell}
        return tested({place: (cell, Cell(cell.key + " members", cell.content, True)) for place, cell in cells.items()})

    def easier(self, dataset: str) -> float:
        """By how much members on three splits are better than single models on all 20, averaged over methods."""
        methods = (*EIGHT, "none")
        of_members = [self.cell("ensembles", method, dataset).members.mean() for method in methods]
        return float(np.mean(of_members) - np.mean([self.mean("strong", method, dataset) for method in methods]))

    def diffpool_gains(self, datasets: Iterable[str]) -> list[float]:
        """What DiffPool gains with a tenth of its own losses, and with none."""
        return [
            self.mean("diffpool", "diffpool", dataset, own_loss=weight) - self.mean("table1", "diffpool", dataset)
            for dataset in datasets
            for weight in (0.0, 0.1)
        ]

    def fall(self, method: str) -> float:
        """The fall of accuracy on NCI1 from ratio 0.8 to 0.2."""
        high, low = (self.mean("figure3", method, "NCI1", ratio=ratio) for ratio in (0.8, 0.2))
        return high - low

    def without_failed(self, dataset: str) -> float:
        """CGIPool's mean with recipe released without splits below 64 %."""
        values = self.cell("released", "cgi", dataset).values
        return float(values[values > 64].mean())

    def gain(self, search: str) -> float:
        """The winner of a search minus the base in the last rung, in points of validation accuracy."""
        found = self.results.searches[search]
        rung = [rung for rung in found["rungs"] if rung["name"] != "one at a time"][-1]
        values = {trial["name"]: np.mean(trial["val_accuracy"]) for trial in rung["trials"]}
        return float(100 * (values[found["winner"]["name"]] - values["base"]))

    def best_epochs(self, studies: Iterable[str], methods: Iterable[str] | None, dataset: str) -> list[int]:
        """Of every training of some studies on a data set, each cell once; None: of all methods."""
        cells = {
            p.key: p.cell
            for name in studies
            for p in self.results.studies[name].places
            if p.cell and p.at["dataset"] == dataset and (methods is None or p.at["method"] in methods)
        }
        return [row["best_epoch"] for cell in cells.values() for row in cell.splits]

    def diagnostic(self, study: str, dataset: str, name: str, level: int, **at: Any) -> list[float]:
        """Of CGIPool's term on every split, at one level."""
        return [row["diagnostics"][name][level] for row in self.cell(study, "cgi", dataset, **at).splits]

    def tried(self, search: str, rung: int, *datasets: str) -> dict[str, float]:
        """By setting of a rung, the difference to the base in points on some data sets, or all."""
        one = self.results.searches[search]["rungs"][rung]
        chosen = [place for place, name in enumerate(one["datasets"]) if not datasets or name in datasets]
        shape = len(one["methods"]), len(one["datasets"]), -1
        judged = [trial for trial in one["trials"] if trial["state"] == "judged"]
        values = {t["name"]: 100 * np.reshape(t["val_accuracy"], shape)[:, chosen].mean() for t in judged}
        return {name: float(value - values["base"]) for name, value in values.items()}

    def having(self, search: str, setting: str, value: Any) -> list[str]:
        """The drawn settings of the first rung that have a value."""
        found = self.results.searches[search]
        trials = [t for t in found["rungs"][0]["trials"] if t["name"] != "base"]
        return [t["name"] for t in trials if t["changes"].get(setting, found["base"][setting]) == value]

    def combinations(self, search: str) -> int:
        """How many settings the space of a search has."""
        return int(np.prod([len(values) for values in self.results.searches[search]["space"].values()]))

    def slower(self, dataset: str) -> float:
        """By how much settings of the first rung with a rate of 0.005 are below the others."""
        found, fast = self.tried("search", 0, dataset), set(self.having("search", "lr", 0.005))
        others = [value for name, value in found.items() if name not in fast and name != "base"]
        return float(np.mean(others) - np.mean([found[name] for name in fast]))

    def gain_se(self, search: str) -> float:
        """The error of `gain` over the splits of the last rung."""
        found = self.results.searches[search]
        rung = [rung for rung in found["rungs"] if rung["name"] != "one at a time"][-1]
        shape = len(rung["methods"]), len(rung["datasets"]), -1
        values = {t["name"]: 100 * np.reshape(t["val_accuracy"], shape).mean(0) for t in rung["trials"]}
        apart = values[found["winner"]["name"]] - values["base"]
        return float(np.sqrt((apart.var(axis=1, ddof=1) / apart.shape[1]).sum()) / len(apart))

    def published_leads(self) -> list[float]:
        """CGIPool's published leads over the peers, in the order of Table 1's comparisons."""
        found = self.results.studies["table1"].against
        return [self.published("table1", "cgi", d) - self.published("table1", m, d) for m, d in found]

    def diffpool_gaps(self, *datasets: str) -> list[float]:
        """DiffPool with a tenth of its own losses, and with none, minus its published mean."""
        return [
            self.mean("diffpool", "diffpool", dataset, own_loss=weight) - self.published("table1", "diffpool", dataset)
            for dataset in datasets
            for weight in (0.0, 0.1)
        ]

    def below_floor(self, *datasets: str) -> int:
        """How many published ± are too small even for a standard error over 20 splits."""
        places = [p for p in self.results.studies["table1"].places if p.at["dataset"] in datasets and p.cell]
        known = [(p.published, p.cell.graphs["test"]) for p in places if p.published and p.cell]
        return sum((spread or np.inf) < floor(mean, tests) / np.sqrt(20) for (mean, spread), tests in known)

    def released_molecules(self) -> list[float]:
        """The accuracies of recipe released on NCI1 and NCI109, ablations included."""
        cells = [p.cell for p in self.results.studies["released"].places if p.at["dataset"] in MOLECULES[:2]]
        return [float(value) for cell in cells if cell for value in cell.values]

    def failed(self) -> list[float]:
        """Those of them that failed."""
        return [value for value in self.released_molecules() if value < 64]

    def floors(self) -> list[float | None]:
        """How many published ± of Table 1 there are, are below the floor, below half of it; and our SDs below it."""
        places = [place for place in self.results.studies["table1"].places if place.published and place.cell]
        known = [
            (p.published[1] or 0.0, floor(p.published[0], p.cell.graphs["test"]), p.cell)
            for p in places
            if p.published and p.cell
        ]
        below = [sum(spread < share * least for spread, least, _ in known) for share in (1.0, 0.5)]
        return [len(known), None, *below, sum(cell.values.std(ddof=1) < least for _, least, cell in known)]


def vocabulary(results: Results) -> dict[str, Any]:
    """The names that expressions may use."""
    own = Vocabulary(results)
    methods = {name: getattr(own, name) for name in dir(own) if not name.startswith("_") and name != "results"}
    plain: tuple[Callable[..., Any], ...] = (abs, len, max, min, range, round, sorted, sum, zip, se, floor, detectable)
    known = {call.__name__: call for call in plain} | {"median": np.median, "average": np.mean}
    names = {
        "MOLECULES": MOLECULES,
        "SETS": SETS,
        "EIGHT": EIGHT,
        "PEERS": PEERS,
        "SIX": SIX,
        "TRAINED": (*EIGHT, "random", "none", "structure-free"),
        "_": None,
    }
    return methods | known | names
