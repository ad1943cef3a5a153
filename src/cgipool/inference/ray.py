"""Predict with Ray tasks: each predicts a range of the input, and the rows are returned in order.

The model and the text of the input (rows of a table, names of graphs) are sent with the tasks. Text is read once, here,
because a task would have to read it from the beginning. The graphs of a set are not sent, because they may be larger
than memory: every node must be able to read them at the same path.
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
"""Number of graphs of a task: seconds of work, and some megabytes of rows."""

AHEAD = 2
"""Number of submitted tasks for each that can run at a time, so that no worker waits until rows are written."""


class PredictOptions(NamedTuple):
    """The options of a prediction."""

    data: str
    asked: Asked
    device: str
    as_json: bool
    strict: bool
    allow_code: bool = False
    """Whether a pool class that the model names may be imported."""
    spread: bool = False
    """Whether rows have the standard deviation over the members of an ensemble."""


def predict_on_ray(
    on: str, model: Path, options: PredictOptions, start: int = 0, stop: int | None = None
) -> Iterator[WrittenRows]:
    """Yield the rows of all graphs, or of those from `start` up to `stop`, range after range, in order. `on` is the Ray
    runtime, as for studies."""
    fitted = FittedModel.load(model, allow_code=options.allow_code)  # raises here if the file is wrong
    options = options._replace(asked=reading(options.data, fitted, options.asked))
    end = count_of(options.data, options.asked) if stop is None else stop
    with connected(on, options.device, 1) as count:
        yield from in_order(count, model, options, range(start, end, RANGE), end)


def in_order(count: int, model: Path, options: PredictOptions, firsts: range, end: int) -> Iterator[WrittenRows]:
    """Yield the rows of the ranges that begin at `firsts`, the last of which ends at `end`, from a connected Ray
    runtime that runs `count` tasks at a time. A task whose worker or node dies is repeated."""
    ray = ray_package()
    gpus = 1 if options.device == "cuda" else 0
    # With max_calls=0, a GPU process continues with the next range. By default it would end and lose the model.
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=3, max_calls=0)(predict_range)
    content = ray.put(model.read_bytes())
    waiting, under_way = deque(firsts), deque[Any]()
    lines = lines_of(options.data, options.asked, firsts.start, end)
    while waiting or under_way:
        while waiting and len(under_way) < AHEAD * count:
            first = waiting.popleft()
            last = min(first + firsts.step, end)
            under_way.append(task.remote(content, options, first, last, list(islice(lines, last - first))))
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


def predict_range(content: bytes, options: PredictOptions, start: int, stop: int, lines: list[Any]) -> tuple[Any, ...]:
    """In a worker: the `WrittenRows` of a range as plain values; `lines` are those of `lines_of`."""
    model = _model(content, options.device, options.allow_code)
    chunks = chunks_from(lines, options.data, model, start, stop, options.asked)
    parts = written(model, chunks, options.as_json, options.strict, options.asked.keep, options.spread)
    texts, *counts = zip(*parts, strict=True)
    return "".join(texts), *map(sum, counts)


_models: dict[tuple[str, str], FittedModel] = {}
"""The models that this process has loaded, by the hash of their file and the device."""


def _model(content: bytes, device: str, allow_code: bool) -> FittedModel:
    known = hashlib.sha256(content).hexdigest(), device
    if known not in _models:
        with tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
            path = Path(folder, "model.safetensors")
            path.write_bytes(content)
            _models[known] = FittedModel.load(path, device, allow_code)
    return _models[known]
