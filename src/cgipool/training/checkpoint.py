"""The state of a training on disk, without pickle: tensors as safetensors, numbers in the file's header.

Random draws are functions of (seed, split, epoch, step), so the whole state is the weights, their average, Adam's
moments and a few numbers.
"""

import hashlib
import json
import math
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cgipool.errors import UserError, excerpt
from cgipool.files import DIGEST, write_atomically
from cgipool.model.network import Model
from cgipool.training.optimiser import MOMENTS, Adam, follow

FORMAT = "1"

HEADER = {"format", "epoch", "best_epoch", "best_loss", "best_watched", "seconds", "kind", "model", "checksum"}
"""All names that any version has written into a header, except the digest. Any other name means damage. If it were
ignored, one flipped bit in the digest's name would make the file look like an old one without a digest."""


class Best(NamedTuple):
    """The best epoch of a training so far."""

    watched: float = math.inf
    """The lowest value of what early stopping watches: the validation loss, or a metric, negative if higher is better.
    """
    epoch: int = 0
    loss: float = math.inf
    """The validation loss of that epoch."""


@dataclass
class State:
    """The state of a training after an epoch."""

    network: Model
    optimizer: Adam | None
    """None for a model without trainable weights."""
    best: dict[str, Tensor]
    """The weights of the best epoch so far."""
    epoch: int = 0
    record: Best = field(default_factory=Best)
    average: Model | None = None
    """The network with averaged weights, if the recipe uses averaging."""
    seconds: float = 0.0
    """Time spent before the checkpoint that this training resumed from."""

    @property
    def best_epoch(self) -> int:
        """The best epoch so far; 0 before the first."""
        return self.record.epoch

    @property
    def eval_state(self) -> Model:
        """The network that is evaluated: the average if there is one, otherwise `network`."""
        return self.network if self.average is None else self.average

    def follow(self, decay: float) -> None:
        """Update the average after a step."""
        if self.average is None:
            return
        assert self.optimizer is not None, "no trainable weights"
        step = next(iter(self.optimizer.state.values()))["step"]
        follow(*self._followed, decay, step)

    @cached_property
    def _followed(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """The averages, the current values, and the buffers among these, by name. Cached, because looking them up takes
        longer than averaging them."""
        assert self.average is not None
        buffers = dict(self.network.named_buffers())
        averages = dict(self.average.named_parameters()) | dict(self.average.named_buffers())
        return averages, dict(self.network.named_parameters()) | buffers, buffers

    def note(self, watched: float, val_loss: float) -> None:
        """Keep the evaluated weights if what early stopping watches is lower than in all earlier epochs."""
        if watched < self.record.watched:
            self.record, self.best = Best(watched, self.epoch, val_loss), copy_of(self.eval_state)


def copy_of(network: Model) -> dict[str, Tensor]:
    """Return a copy of all weights."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def save_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    """Write tensors and their digest atomically."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    content = {"format": FORMAT} | header
    digest = {DIGEST: digest_of(plain, json.dumps(content, sort_keys=True))}

    def write(temporary: Path) -> None:
        try:
            save_file(plain, temporary, content | digest)
        except SafetensorError as error:  # such as a full disk, which safetensors reports as its own error
            raise OSError(str(error)) from error

    write_atomically(path, write)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read tensors and header. Raise UserError if the file is damaged or has a later format.

    Files from earlier versions have no digest and are not checked against one.
    """
    try:
        _check_is_file(path)
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or str(error).removesuffix(f': {path}')}") from None
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:  # AttributeError: a type unknown to torch
        raise UserError(
            f"cannot read {path}: it is not a safetensors file, or it is damaged ({excerpt(str(error))})"
        ) from None
    if header.get("format") != FORMAT:
        raise UserError(f"{path} has format {header.get('format')!r}, but this version reads {FORMAT!r}")
    digest = header.pop(DIGEST, None)
    if digest is not None and digest != digest_of(tensors, json.dumps(header, sort_keys=True)):
        raise UserError(f"{path} is damaged: its content does not match its SHA-256")
    if unknown := header.keys() - HEADER:
        raise UserError(f"{path} is damaged: its header has an unknown entry {excerpt(min(unknown))!r}")
    return tensors, header


def _check_is_file(path: Path) -> None:
    """Raise UserError for a folder, a pipe or a device; reading a pipe or a device might never end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise UserError(f"cannot read {path}: it is a folder")
    if not stat.S_ISREG(mode):
        raise UserError(f"cannot read {path}: it is a pipe or a device, not a file")


def digest_of(tensors: dict[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of the names, types, shapes and values of tensors."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return digest.hexdigest()


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a checkpoint with `load_tensors`; the error message also says what to do."""
    try:
        return load_tensors(path)
    except UserError as error:
        raise UserError(f"{error}; remove it to train this split from the start") from None


def save_state(path: Path, state: State, seconds: float) -> None:
    """Write everything that the next epoch needs, and the time spent so far."""
    assert state.optimizer is not None, "no trainable weights, so nothing to resume"
    tensors = {f"now/{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best/{name}": value for name, value in state.best.items()}
    if state.average is not None:
        tensors |= {f"average/{name}": value for name, value in state.average.state_dict().items()}
    for name, parameter in state.network.named_parameters():
        tensors |= {f"adam/{part}/{name}": value for part, value in state.optimizer.state[parameter].items()}
    save_tensors(path, tensors, header_of(state.epoch, state.record, seconds))


def header_of(epoch: int, best: Best, seconds: float) -> dict[str, str]:
    """Return the numbers of a checkpoint as header entries."""
    plain = {"epoch": str(epoch), "best_epoch": str(best.epoch), "best_loss": best.loss.hex()}
    plain |= {} if best.watched == best.loss else {"best_watched": best.watched.hex()}
    return plain | {"seconds": str(seconds)}


def best_of(header: dict[str, str]) -> Best:
    """Return the best epoch recorded in a checkpoint; what was watched is the loss unless it is recorded."""
    loss = header["best_loss"]
    return Best(float.fromhex(header.get("best_watched", loss)), int(header["best_epoch"]), float.fromhex(loss))


def seconds_of(header: dict[str, str]) -> float:
    """Return the seconds recorded in a checkpoint; the first version did not record them, so 0."""
    return float(header.get("seconds", 0.0))


def load_state(path: Path, state: State) -> None:
    """Load a saved state into a newly built one."""
    tensors, header = load_checkpoint(path)
    assert state.optimizer is not None, "no trainable weights, so nothing to resume"
    try:
        state.network.load_state_dict(_under("now/", tensors))
        if state.average is not None:
            state.average.load_state_dict({name: tensors[f"average/{name}"] for name in state.average.state_dict()})
        state.best = _under("best/", tensors)
        moments = {part: _under(f"adam/{part}/", tensors) for part in MOMENTS}
        for name, parameter in state.network.named_parameters():
            if any(name in held for held in moments.values()):  # a weight that never had a gradient has no moments
                own = {part: held[name].to(parameter.device) for part, held in moments.items()}
                state.optimizer.state[parameter] = own
        state.epoch, state.record = int(header["epoch"]), best_of(header)
        state.seconds = seconds_of(header)
    except (KeyError, RuntimeError, ValueError) as error:
        raise UserError(f"{path} does not match this training: {' '.join(str(error).split())}") from None


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
