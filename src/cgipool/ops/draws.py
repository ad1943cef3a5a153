"""Random numbers as a function of where they are used, not of what was drawn before.

A draw is a hash of a key (seed, split, epoch, step), a site (which module) and an index (which element). So a split
draws the same numbers alone or among others, on a CPU or a GPU, and a resumed run needs no generator state.
The hash is the 32-bit mixer "lowbias32" (C. Wellons, hash-prospector), computed in int64, where torch has all it needs.
"""

from typing import TypeVar

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF

T = TypeVar("T", int, Tensor)


def mix(x: T) -> T:
    """One-to-one scrambling of the numbers 0 .. 2^32 − 1, of a Python int or of an int64 tensor."""
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & _LOW
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & _LOW
    return x ^ (x >> 16)


def key_of(*parts: int) -> int:
    """One key from several numbers, such as (seed, split, epoch, step); the order of the parts matters."""
    key = 0x9E3779B9
    for part in parts:
        key = mix(key ^ mix(part & _LOW))
        key = mix(key ^ mix((part >> 32) & _LOW)) if part >> 32 else key
    return key


def extended(key: Tensor, part: Tensor) -> Tensor:
    """`key_of` with one more part below 2^32, on tensors."""
    return mix(key ^ mix(part))


def node_index(outer: Tensor, inner: Tensor) -> Tensor:
    """One index out of two, such as a graph's number and a node's place in it."""
    return (mix(outer & _LOW) + inner) & _LOW


def uniform(key: Tensor, site: int, index: Tensor) -> Tensor:
    """Numbers in [0, 1) in float32 for every entry of index; key is a tensor without dimensions. The reference for
    `ops.draws`."""
    return (mix(mix(index ^ mix(site + 1)) ^ key) >> 8).float() * 2.0**-24


def shuffled(key: int | Tensor, count: int) -> Tensor:
    """A random order of 0 .. count − 1; for keys [S], one in each row."""
    if isinstance(key, int):
        return torch.argsort(mix(torch.arange(count) ^ mix(key)), stable=True)
    every = torch.arange(count, device=key.device)
    return torch.argsort(mix(every ^ mix(key).unsqueeze(-1)), dim=-1, stable=True)
