"""Check the description in a model file before a network of the size that it claims is built.

A model file may come from anyone. Its description must have the right types, be consistent, and match the tensors of
the file exactly.
"""

import json
from typing import Any

import torch
from torch import Tensor

from cgipool.classical import MODELS
from cgipool.data.features import SOURCES, VOCABULARIES, Encoder
from cgipool.errors import excerpt
from cgipool.pool import METHODS, Sizes
from cgipool.task.base import Task
from cgipool.task.registry import TASKS
from cgipool.training.initial import model_of
from cgipool.training.recipe import Recipe


def parsed(text: str) -> dict[str, Any]:
    """The description in the header of a model file. Raise ValueError unless it is a JSON object of valid text and
    numbers."""
    plain = json.loads(text, parse_constant=_no_constant)
    json.dumps(plain, ensure_ascii=False).encode()  # a lone surrogate must fail here, not when it is printed
    _need(isinstance(plain, dict), "its description is not a table")
    return plain


def check_description(plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Raise ValueError unless the description has the right types and its members match the tensors."""
    _need(isinstance(plain["method"], str), "the method is not a name")
    _need(isinstance(plain["recipe"], dict), "the recipe is not a table")
    names, shares, sizes = _outputs(plain), plain["shares"], plain["sizes"]
    _need(_texts(names) and len(set(names)) == len(names) > 0, "the class names are not a list of distinct names")
    _need(_numbers(shares) and len(shares) == len(names), "it does not have one share for each class")
    _need(all(0 <= share <= 1 for share in shares), "a share of a class is not between 0 and 1")
    _need(_numbers(sizes) and len(sizes) == 2 and type(sizes[1]) is int, "the sizes are not a mean and a whole number")
    _need(0 <= min(sizes) <= max(sizes) < 2**31, "the sizes are out of range")
    _need(plain["featurizer"] is None or isinstance(plain["featurizer"], dict), "the featurizer is not a table")
    own = (plain["featurizer"] or {}).get("own", {"function": ""})
    _need(isinstance(own, dict) and isinstance(own.get("function"), str), "the featurizer's function is not a name")
    about = plain["about"]
    _need(isinstance(about, dict), "the description of its training is not a table")
    if "labels" in about:
        labels = about["labels"]
        _need(isinstance(labels, list) and len(labels) == len(names), "it does not have one label for each class")
        _need(_texts(labels) or _numbers(labels) or _flags(labels), "the labels are of different types")
    _check_encoder(plain["encoder"])
    members = plain["members"]
    _need(type(members) is int and 1 <= members <= len(tensors), f"it cannot have {excerpt(str(members), 20)} members")
    prefixes = {f"member-{number:02d}" for number in range(members)}
    found = {name.partition("/")[0] for name in tensors}
    _need(found == prefixes, f"it should have {members} members, but has tensors of {len(found)}")


def _outputs(plain: dict[str, Any]) -> Any:
    """The names of the classes or target columns. Raise ValueError if the task is unknown or does not match them."""
    task = plain.get("task", "classification")
    if task == "classification":
        return plain["class_names"]
    _need(task in TASKS and plain["class_names"] == [], f"the task {excerpt(str(task), 40)!r} is unknown")
    names, constants = plain["target_names"], plain["constants"]
    sound = isinstance(constants, list) and len(constants) == 2 and all(map(_numbers, constants))
    _need(sound and all(len(row) == len(names) for row in constants), "the constants do not match the targets")
    return names


def check_weights(
    method: str,
    recipe: Recipe,
    encoder: Encoder,
    task: Task,
    shares: tuple[float, ...],
    sizes: Sizes,
    members: list[dict],
) -> None:
    """Raise ValueError unless every member has exactly the tensors of the described network.

    The network is built without memory for its weights, except with a user's own pool, whose code may need values:
    then `load_state_dict` compares the shapes.
    """
    if method not in METHODS:
        return
    if METHODS[method].classical:
        for arrays in members:
            MODELS[method].check_arrays({name: value.numpy() for name, value in arrays.items()}, task)
        return
    levels = recipe.levels if METHODS[method].build is not None else 1
    _need(levels <= len(members[0]), f"it has too few tensors for {excerpt(str(levels), 20)} levels")
    try:
        with torch.device("meta"):
            expected = model_of(method, recipe, encoder, task, shares, sizes).state_dict()
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"no network can be built from its description ({' '.join(str(error).split())})") from None
    for number, weights in enumerate(members):
        if odd := sorted(expected.keys() ^ weights.keys()):
            lacks = "lacks" if odd[0] in expected else "has an unknown tensor"
            raise ValueError(f"member {number} {lacks} {excerpt(odd[0])}")
        for name, value in weights.items():
            wanted = expected[name]
            if value.shape != wanted.shape or value.dtype != wanted.dtype:
                shapes = f"{tuple(value.shape)}, but its settings need {tuple(wanted.shape)}"
                raise ValueError(f"{name} of member {number} has shape {shapes}")


STRUCTURE: dict[str, Any] = {"wl": 0, "merged": [], "rwse": 0, "lappe": 0}
"""The fields of an encoder for structural features, with their values in files that lack them."""


def _check_encoder(plain: Any) -> None:
    _need(isinstance(plain, dict), "the encoder is not a table")
    _check_columns(plain)
    if (held := plain.get("descriptors")) is not None:
        _need(isinstance(held, dict) and _texts(held.get("names")), "the encoder's descriptors have no names")
        sound = _numbers(held["mean"]) and _numbers(held["scale"]) and all(value >= 0 for value in held["scale"])
        rdkit, bits = held.get("rdkit", []), held.get("bits", 0)
        sound = sound and _texts(rdkit) and type(bits) is int and bits >= 0 and isinstance(held["impute"], bool)
        sound = sound and len(held["names"]) + len(rdkit) + bits == len(held["mean"]) == len(held["scale"]) > 0
        _need(sound, "the encoder's descriptors are not valid")
    wl, merged, rwse, lappe = (plain.get(name, usual) for name, usual in STRUCTURE.items())
    sound = all(type(count) is int and count >= 0 for count in (wl, rwse, lappe))
    _need(sound, "the encoder's rounds or steps are not whole numbers")
    _need(_flags(merged) and len(merged) == wl, "the encoder does not have one flag for each round of colours")
    _need(wl < max(len(plain["values"]), 1), "the encoder has too few columns for its rounds of colours")
    _need(rwse + lappe <= len(plain["mean"] or ()), "the encoder has too few float columns for its steps")
    _need(plain["source"] in SOURCES[1:], "the encoder uses neither labels nor degrees")
    _need(plain["source"] != "degree" or len(plain["values"]) == 1 + wl, "an encoder of degrees must have one column")
    if plain.get("edges") is not None:
        _need(isinstance(plain["edges"], dict), "the encoder of the edges is not a table")
        _check_columns(plain["edges"])


def _check_columns(plain: dict[str, Any]) -> None:
    values, seen, mean, scale = (plain[name] for name in ("values", "seen", "mean", "scale"))
    _need(_texts(list(plain.get("reads", []))), "the encoder's names of columns to read are not strings")
    called = plain.get("called", [[], []])
    sound = isinstance(called, list) and len(called) == 2 and all(map(_texts, called))
    _need(sound, "the encoder's column names are not strings")
    _need(plain["vocabulary"] in VOCABULARIES, "the encoder's vocabulary is unknown")
    _need(isinstance(values, list) and all(map(_texts, values)), "the encoder's values are not lists of names")
    _need(isinstance(seen, list) and all(map(_flags, seen)), "the encoder's flags are not lists of true and false")
    _need(list(map(len, values)) == list(map(len, seen)), "the encoder's values and flags differ in number")
    if mean is not None or scale is not None:
        _need(_numbers(mean) and _numbers(scale) and len(mean) == len(scale), "the encoder's means and scales differ")
        _need(all(value > 0 for value in scale), "a scale of the encoder is not positive")


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _flags(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, bool) for item in value)


def _numbers(value: Any) -> bool:
    """Whether a value is a list of finite numbers that a float can hold."""
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        return False
    return all(abs(item) < 1e300 for item in value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a valid JSON number")
