"""Dividing the cells of a study among machines in advance. No torch."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from cgipool.errors import UserError, counted

T = TypeVar("T")


def parse_shard(text: str | None, environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """ "I/N", counted from 1; without it the variables of a SLURM array; without those 1/1."""
    if text is not None:
        try:
            number, count = map(int, text.split("/"))
        except ValueError:
            raise UserError(f"--shard {text!r} is not of the form I/N, such as 2/8") from None
        if not 1 <= number <= count:
            raise UserError(f"--shard {text}: the first number must be from 1 to {count}")
        return number, count
    names = [f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "MIN", "COUNT")]
    if any(name not in environment for name in names):
        return 1, 1
    try:
        task, least, count = (int(environment[name]) for name in names)
    except ValueError:
        raise UserError("SLURM's array variables are not whole numbers") from None
    number = task - least + 1
    if not 1 <= number <= count:
        tasks = counted(count, "task")
        raise UserError(f"SLURM's array has {tasks}, but this one is number {number}: --array needs a step of 1")
    return number, count


def shard_of_rank(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The number of this process, counted from 1, and the number of processes, from torchrun's or srun's variables."""
    for names in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        if all(environment.get(name, "").isdigit() for name in names):
            rank, count = (int(environment[name]) for name in names)
            return rank + 1, count
    raise UserError("--shard rank is for processes that torchrun or srun started: neither RANK nor SLURM_PROCID is set")


def share_of(items: Sequence[T], cost: Callable[[T], float], number: int, count: int) -> list[T]:
    """The share of one of several machines, in the given order. Items are assigned by falling cost, each to the machine
    with the least work so far. This depends only on the study, not on what is finished, so all machines agree."""
    load = [0.0] * count
    mine = set()
    for place in sorted(range(len(items)), key=lambda i: -cost(items[i])):
        whose = load.index(min(load))
        load[whose] += cost(items[place])
        if whose == number - 1:
            mine.add(place)
    return [item for place, item in enumerate(items) if place in mine]
