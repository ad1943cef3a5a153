"""Checks of what a model file says about itself, made before anything of the size it claims is built.

A model file may come from anyone. Its description must have the right types, agree with itself, and describe exactly
the tensors that the file holds.
"""

import json
from typing import Any

import torch
from torch import Tensor

from cgipool.data.features import VOCABULARIES, Encoder
from cgipool.errors import excerpt
from cgipool.pool import METHODS, Sizes
from cgipool.training.initial import model_of
from cgipool.training.recipe import Recipe


def parsed(text: str) -> dict[str, Any]:
    """The description in a model file's header; a ValueError if it is not a JSON object of valid text and numbers."""
    plain = json.loads(text, parse_constant=_no_constant)
    json.dumps(plain, ensure_ascii=False).encode()  # a lone surrogate is an error here and not where it is printed
    _need(isinstance(plain, dict), "its description is not a table")
    return plain


def check_description(plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """A ValueError unless the description has the right types and as many members as there are tensors for."""
    _need(isinstance(plain["method"], str), "the method is not a name")
    _need(isinstance(plain["recipe"], dict), "the recipe is not a table")
    names, shares, sizes = plain["class_names"], plain["shares"], plain["sizes"]
    _need(_texts(names) and len(set(names)) == len(names) > 0, "the class names are not a list of distinct names")
    _need(_numbers(shares) and len(shares) == len(names), "there is not one share for each class")
    _need(all(0 <= share <= 1 for share in shares), "a share of a class is not between 0 and 1")
    _need(_numbers(sizes) and len(sizes) == 2 and type(sizes[1]) is int, "the sizes are not a mean and a whole number")
    _need(0 <= min(sizes) <= max(sizes) < 2**31, "the sizes are out of range")
    _need(plain["featurizer"] is None or isinstance(plain["featurizer"], dict), "the featurizer is not a table")
    about = plain["about"]
    _need(isinstance(about, dict), "the description of its training is not a table")
    if "labels" in about:
        labels = about["labels"]
        _need(isinstance(labels, list) and len(labels) == len(names), "there is not one label for each class")
        _need(_texts(labels) or _numbers(labels) or _flags(labels), "the labels are of different types")
    _check_encoder(plain["encoder"])
    members = plain["members"]
    _need(type(members) is int and 1 <= members <= len(tensors), f"it cannot have {excerpt(str(members), 20)} members")
    prefixes = {f"member-{number:02d}" for number in range(members)}
    found = {name.partition("/")[0] for name in tensors}
    _need(found == prefixes, f"it should have {members} members, but has tensors of {len(found)}")


def check_weights(
    method: str, recipe: Recipe, encoder: Encoder, shares: tuple[float, ...], sizes: Sizes, members: list[dict]
) -> None:
    """A ValueError unless every member has exactly the tensors of the network that is described.

    The network is built without memory for its weights. One with a pool of the user's own is not, as its code may need
    values: there `load_state_dict` compares the shapes.
    """
    if method not in METHODS:
        return
    levels = recipe.levels if METHODS[method].build is not None else 1
    _need(levels <= len(members[0]), f"it has too few tensors for {excerpt(str(levels), 20)} levels")
    try:
        with torch.device("meta"):
            expected = model_of(method, recipe, encoder, shares, sizes).state_dict()
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"no network can be built from its description ({' '.join(str(error).split())})") from None
    for number, weights in enumerate(members):
        if odd := sorted(expected.keys() ^ weights.keys()):
            lacks = "lacks" if odd[0] in expected else "has an unknown tensor"
            raise ValueError(f"member {number} {lacks} {excerpt(odd[0])}")
        for name, value in weights.items():
            wanted = expected[name]
            if value.shape != wanted.shape or value.dtype != wanted.dtype:
                shapes = f"{tuple(value.shape)} where {tuple(wanted.shape)} follows from its settings"
                raise ValueError(f"{name} of member {number} has shape {shapes}")


def _check_encoder(plain: Any) -> None:
    _need(isinstance(plain, dict), "the encoder is not a table")
    values, seen, mean, scale = (plain[name] for name in ("values", "seen", "mean", "scale"))
    _need(plain["source"] in ("label", "degree"), "the encoder reads neither labels nor degrees")
    _need(plain["vocabulary"] in VOCABULARIES, "the encoder's vocabulary is unknown")
    _need(isinstance(values, list) and all(map(_texts, values)), "the encoder's values are not lists of names")
    _need(isinstance(seen, list) and all(map(_flags, seen)), "the encoder's seen values are not lists of truth values")
    _need(list(map(len, values)) == list(map(len, seen)), "the encoder's values and seen values differ in number")
    _need(plain["source"] == "label" or len(values) == 1, "an encoder of degrees has one column")
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
    """Whether it is a list of finite numbers that a float can hold."""
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        return False
    return all(abs(item) < 1e300 for item in value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a valid JSON number")
