"""Prediction as tasks of Ray: each predicts a range of the input, and the rows come back in order.

The model and the text of the input (rows of a table, names of graphs) are sent with the tasks; text is read once, here,
because a task would have to read it from its beginning. The graphs of a set are not sent, as they may be larger than
memory: every node must be able to read them under the same path.
"""

import hashlib
import tempfile
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.importers.lines import Asked, lines_of
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import WrittenRows, written
from cgipool.inference.predict_input import CHUNK, chunks_from, count_of, reading
from cgipool.study.ray.cluster import connected, ray_package

RANGE = 16 * CHUNK
"""Graphs of a task: seconds of work, and some megabytes of rows."""

AHEAD = 2
"""Tasks given to Ray for each that can run at a time, so that none waits for the writing of rows."""


class Wish(NamedTuple):
    """What is predicted, and how it is written."""

    data: str
    asked: Asked
    device: str
    as_json: bool
    strict: bool
    allow_code: bool = False
    """Whether a class that the model names may be imported."""
    spread: bool = False
    """Whether rows have the standard deviation over the members of an ensemble."""


def predict_on_ray(on: str, model: Path, wish: Wish, start: int = 0, stop: int | None = None) -> Iterator[WrittenRows]:
    """The rows of all graphs, or of those from `start` up to `stop`, range after range in their order; `on` says which
    Ray, as for studies."""
    fitted = FittedModel.load(model, allow_code=wish.allow_code)  # raises here if the file is wrong
    wish = wish._replace(asked=reading(wish.data, fitted, wish.asked))
    end = count_of(wish.data, wish.asked) if stop is None else stop
    with connected(on, wish.device, 1) as count:
        yield from in_order(count, model, wish, range(start, end, RANGE), end)


def in_order(count: int, model: Path, wish: Wish, firsts: range, end: int) -> Iterator[WrittenRows]:
    """The rows of the ranges that begin at `firsts`, the last of which ends at `end`, on a Ray that is connected and
    has `count` tasks at a time. One whose worker or node dies is begun again."""
    ray = ray_package()
    gpus = 1 if wish.device == "cuda" else 0
    # With max_calls=0, a GPU process continues with the next range. By default it would end and lose the model.
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=3, max_calls=0)(predict_range)
    content = ray.put(model.read_bytes())
    waiting, under_way = deque(firsts), deque[Any]()
    lines = lines_of(wish.data, wish.asked, firsts.start, end)
    while waiting or under_way:
        while waiting and len(under_way) < AHEAD * count:
            first = waiting.popleft()
            last = min(first + firsts.step, end)
            under_way.append(task.remote(content, wish, first, last, list(islice(lines, last - first))))
        yield _rows(ray, under_way.popleft())


def _rows(ray: Any, reference: Any) -> WrittenRows:
    try:
        return WrittenRows(*ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise UserError(str(error.cause)) from None
        raise UserError(f"a Ray worker cannot predict: {error.cause or error}") from None
    except ray.exceptions.RayError as error:
        raise UserError(f"a Ray worker was lost too often: {' '.join(str(error).split())[:200]}") from None


def predict_range(content: bytes, wish: Wish, start: int, stop: int, lines: list[Any]) -> tuple[Any, ...]:
    """In a worker: the `WrittenRows` of a range, of which `lines_of` gives these lines, as plain values."""
    model = _model(content, wish.device, wish.allow_code)
    chunks = chunks_from(lines, wish.data, model, start, stop, wish.asked)
    parts = written(model, chunks, wish.as_json, wish.strict, wish.asked.keep, wish.spread)
    texts, *counts = zip(*parts, strict=True)
    return "".join(texts), *map(sum, counts)


_models: dict[tuple[str, str], FittedModel] = {}
"""Those that this process has read, by the hash of their file and the device."""


def _model(content: bytes, device: str, allow_code: bool) -> FittedModel:
    known = hashlib.sha256(content).hexdigest(), device
    if known not in _models:
        with tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
            path = Path(folder, "model.safetensors")
            path.write_bytes(content)
            _models[known] = FittedModel.load(path, device, allow_code)
    return _models[known]
