"""`cgipool describe`."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from cgipool.cli.options import ALLOW_CODE, AS_JSON, MODEL
from cgipool.errors import counted, excerpt

if TYPE_CHECKING:
    from cgipool.inference.fitted import FittedModel


def describe(model: MODEL, allow_code: ALLOW_CODE = False, as_json: AS_JSON = False) -> None:
    """Show what a model predicts, what it was trained on, and its expected performance."""
    from cgipool.cli.errors import output
    from cgipool.cli.tables import facts_table
    from cgipool.inference.fitted import FittedModel

    fitted = FittedModel.load(model, allow_code=allow_code)
    if as_json:
        typer.echo(json.dumps(plain_of(fitted), allow_nan=False))
    else:
        output().print(facts_table(facts_of(fitted)))


def plain_of(model: "FittedModel") -> dict[str, Any]:
    """The description as plain values."""
    return {
        "model": model.title,
        "method": model.method,
        "recipe": model.recipe.name,
        "settings": model.recipe.settings(),
        "task": model.task_name,
        "predicts": list(model.task.columns),
        "molecules": model.featurizer is not None,
        "models": len(_parts(model)),
        "weights": _weights(model),
        "training": model.about,
    }


def facts_of(model: "FittedModel") -> list[tuple[str, str]]:
    """The description, one fact per line. The description of the training in a file may be incomplete or invalid."""
    from cgipool.data.importers.table import few

    about = model.about
    kind = {"classification": "class", "multilabel": "columns of 0 and 1"}.get(model.task_name, "numbers")
    facts = [
        ("model", model.title),
        ("size", f"{counted(len(_parts(model)), 'model')}, {_weights(model):,} learned numbers"),
        ("predicts", f"{kind}: {few(model.task.columns)}"),
        ("reads", "molecules (SMILES, SDF) or sets of them" if model.featurizer is not None else "graphs"),
    ]
    if "parts" not in vars(model) and (changes := model.recipe.settings()):
        facts.append(("settings", ", ".join(f"{name}={value}" for name, value in changes.items())))
    facts += [("trained before on", words) for each in _list(about.get("before")) if (words := _said(_trained, each))]
    metric = about.get("metric", model.task.primary)
    candidates: list[tuple[str, Callable[[], str]]] = [
        ("trained on", lambda: _trained(about)),
        ("validation", lambda: _validation(about, metric)),
        ("expected", lambda: _estimate(about["estimate"])),
        ("thresholds", lambda: _thresholds(model)),
        ("made with", lambda: ", ".join(f"{name} {excerpt(about[name], 40)}" for name in VERSIONS if name in about)),
    ]
    return facts + [(name, words) for name, make in candidates if (words := _said(make))]


VERSIONS = ("cgipool", "torch", "python")


def _trained(about: dict[str, Any]) -> str:
    graphs = about["graphs"]
    words = f"{excerpt(about['dataset'], 80)}: {counted(graphs['train'], 'graph')}"
    words += f", and {graphs['extra']:,} without labels" if "extra" in graphs else ""
    return words + (f"; in {counted(about['folds'], 'fold')}, one model each" if "folds" in about else "")


def _validation(about: dict[str, Any], metric: str) -> str:
    from cgipool.task.metrics import described

    value, graphs = described(metric, about["validation"][metric]), about["graphs"]
    if "folds" in about:
        return f"{value} on the training graphs, each predicted by models that did not see it; used to choose the model"
    return f"{value} on {counted(graphs['val'], 'graph')}, used for early stopping: slightly optimistic"


def _estimate(estimate: dict[str, Any]) -> str:
    from cgipool.task.metrics import described, written

    metric = estimate["metric"]
    low, high = (written(metric, estimate[name], 1) for name in ("low", "high"))
    value = described(metric, estimate[metric])
    return (
        f"{value} (95 % interval {low} to {high}) on {counted(estimate['graphs'], 'graph')} held out from every choice"
    )


def _thresholds(model: "FittedModel") -> str:
    """The probabilities above which the rarer class or 1 is predicted, where they are not one half."""
    from cgipool.data.importers.table import few

    if model.thresholds is None:
        return ""
    pairs = list(zip(model.task.columns, model.thresholds.tolist(), strict=True))
    if model.task_name == "classification":
        pairs = [pairs[model.shares.index(min(model.shares))]]
    return few([f"{name} above a probability of {100 * value:.1f} %" for name, value in pairs if value != 0.5])


def _said(make: Callable[..., str], *given: Any) -> str:
    """The result of a function; empty if the file lacks the values that it reads."""
    try:
        return make(*given)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parts(model: "FittedModel") -> list[dict[str, Any]]:
    """The learned tensors of each model: those of a blend count once, however often they are weighted."""
    return [member for part in getattr(model, "parts", (model,)) for member in part.members]


def _weights(model: "FittedModel") -> int:
    return sum(value.numel() for member in _parts(model) for value in member.values())
