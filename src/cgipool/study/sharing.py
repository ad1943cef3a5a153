"""NVIDIA's MPS for as long as a study runs: kernels of several processes then run side by side on one GPU, where they
would take turns. A step of a few small splits leaves most of a card idle, so several cells at once take less time."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
"""The environment variables by which processes find the service."""

log = logging.getLogger("cgipool")


def shared(devices: Sequence[str]) -> AbstractContextManager[bool]:
    """The service, if one of these devices is a GPU that several processes are to use."""
    twice = [name for name in devices if name.startswith("cuda") and devices.count(name) > 1]
    return mps() if twice else nullcontext(False)


@contextmanager
def mps() -> Iterator[bool]:
    """Start the service, for processes started meanwhile, and end it afterwards; tells whether there is one.

    One that the environment names already is used, and left running. Without one, cells on one GPU still run, by turns.
    """
    if PIPES in os.environ:
        yield True
        return
    with tempfile.TemporaryDirectory(prefix="cgipool-mps-") as folder:
        place = {PIPES: folder, LOGS: folder}
        if not _started(place):
            yield False
            return
        os.environ |= place
        try:
            yield True
        finally:
            subprocess.run([CONTROL], input="quit\n", text=True, capture_output=True)
            for name in place:
                del os.environ[name]


def _started(place: dict[str, str]) -> bool:
    if shutil.which(CONTROL) is None:
        log.warning("%s is not here: cells on one GPU take turns, which gains little", CONTROL)
        return False
    done = subprocess.run([CONTROL, "-d"], env=os.environ | place, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        log.warning("MPS did not start (%s): cells on one GPU take turns", said[-1] if said else done.returncode)
    return done.returncode == 0
