"""The state of a training on disk, without pickle: tensors as safetensors, numbers in the file's header.

Draws are functions of (seed, split, epoch, step), so weights, their average, Adam's moments and a few numbers are the
whole state.
"""

import hashlib
import json
import stat
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cgipool.errors import UserError, excerpt
from cgipool.files import DIGEST, write_atomically
from cgipool.model.network import Model
from cgipool.training.optimiser import MOMENTS, Adam, follow

FORMAT = "1"

HEADER = {"format", "epoch", "best_epoch", "best_loss", "seconds", "kind", "model", "checksum"}
"""All that was ever written into a header beside the digest. Any other name is damage: were it ignored, one flipped bit
in the name of the digest would turn a file into one from before there were digests."""


@dataclass
class State:
    """Where a training stands after an epoch."""

    network: Model
    optimizer: Adam | None
    """None for a model that has nothing to learn."""
    best: dict[str, Tensor]
    """The weights of the best epoch so far."""
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = float("inf")
    average: Model | None = None
    """The network with averaged weights, where the recipe wants one."""
    seconds: float = 0.0
    """Spent until the checkpoint that this training goes on from."""

    @property
    def eval_state(self) -> Model:
        """Whose answers count: the average if there is one, while `network` goes on training."""
        return self.network if self.average is None else self.average

    def follow(self, decay: float) -> None:
        """After a step, move the average."""
        if self.average is None:
            return
        assert self.optimizer is not None, "nothing to learn"
        step = next(iter(self.optimizer.state.values()))["step"]
        buffers = dict(self.network.named_buffers())
        averages = dict(self.average.named_parameters()) | dict(self.average.named_buffers())
        follow(averages, dict(self.network.named_parameters()) | buffers, buffers, decay, step)

    def note(self, val_loss: float) -> None:
        """Remember the judged weights if this validation loss is the lowest so far."""
        if val_loss < self.best_loss:
            self.best_loss, self.best_epoch, self.best = val_loss, self.epoch, copy_of(self.eval_state)


def copy_of(network: Model) -> dict[str, Tensor]:
    """A copy of all weights."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def save_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    """Write tensors and their digest, atomically."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    content = {"format": FORMAT} | header
    digest = {DIGEST: digest_of(plain, json.dumps(content, sort_keys=True))}

    def write(temporary: Path) -> None:
        try:
            save_file(plain, temporary, content | digest)
        except SafetensorError as error:  # a full disk, told in safetensors' own way
            raise OSError(str(error)) from error

    write_atomically(path, write)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read tensors and header; a damaged file, or one of a later format, is an error that names it.

    Files of earlier versions have no digest and are read unchecked.
    """
    try:
        _check_is_file(path)
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or str(error).removesuffix(f': {path}')}") from None
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:  # the latter for types unknown to torch
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
    """An error for a folder, a pipe or a device, which would be waited for or read without end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise UserError(f"cannot read {path}: it is a folder")
    if not stat.S_ISREG(mode):
        raise UserError(f"cannot read {path}: it is a pipe or a device, not a file")


def digest_of(tensors: dict[str, Tensor], text: str) -> str:
    """The SHA-256 of a text and of names, types, shapes and values of tensors."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return digest.hexdigest()


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """As `load_tensors`, for a checkpoint: the error also says what to do."""
    try:
        return load_tensors(path)
    except UserError as error:
        raise UserError(f"{error}; remove it to train this split from the start") from None


def save_state(path: Path, state: State, seconds: float) -> None:
    """Write everything that the next epoch needs, and how long it took to come here."""
    assert state.optimizer is not None, "nothing to learn, hence nothing to resume"
    tensors = {f"now/{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best/{name}": value for name, value in state.best.items()}
    if state.average is not None:
        tensors |= {f"average/{name}": value for name, value in state.average.state_dict().items()}
    for name, parameter in state.network.named_parameters():
        tensors |= {f"adam/{part}/{name}": value for part, value in state.optimizer.state[parameter].items()}
    save_tensors(path, tensors, header_of(state.epoch, state.best_epoch, state.best_loss, seconds))


def header_of(epoch: int, best_epoch: int, best_loss: float, seconds: float) -> dict[str, str]:
    """The numbers of a checkpoint."""
    plain = {"epoch": str(epoch), "best_epoch": str(best_epoch), "best_loss": best_loss.hex()}
    return plain | {"seconds": str(seconds)}


def seconds_of(header: dict[str, str]) -> float:
    """What a checkpoint says was spent until it was written; the first version of them did not tell."""
    return float(header.get("seconds", 0.0))


def load_state(path: Path, state: State) -> None:
    """Put a saved state into a freshly built one."""
    tensors, header = load_checkpoint(path)
    assert state.optimizer is not None, "nothing to learn, hence nothing to resume"
    try:
        state.network.load_state_dict(_under("now/", tensors))
        if state.average is not None:
            state.average.load_state_dict({name: tensors[f"average/{name}"] for name in state.average.state_dict()})
        state.best = _under("best/", tensors)
        moments = {part: _under(f"adam/{part}/", tensors) for part in MOMENTS}
        for name, parameter in state.network.named_parameters():
            if any(name in held for held in moments.values()):  # Adam keeps none of a weight that no gradient reached
                own = {part: held[name].to(parameter.device) for part, held in moments.items()}
                state.optimizer.state[parameter] = own
        state.epoch, state.best_epoch = int(header["epoch"]), int(header["best_epoch"])
        state.best_loss = float.fromhex(header["best_loss"])
        state.seconds = seconds_of(header)
    except (KeyError, RuntimeError, ValueError) as error:
        raise UserError(f"{path} does not match this training: {' '.join(str(error).split())}") from None


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
