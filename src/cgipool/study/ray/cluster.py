"""Connecting to a Ray runtime, and its capacity."""

import importlib
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cgipool.errors import UserError
from cgipool.files import open_without_links
from cgipool.study.run import reason_of

ANSWER_SECONDS = 10.0
"""Seconds to wait until a cluster accepts a connection."""

CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable that says whether a runtime may have nodes on other machines: 0 is localhost alone."""

STARTS = 3
"""Attempts to start a local runtime."""


def address_of(on: str) -> str | None:
    """The address for `ray.init`, from "ray", "ray:ADDRESS" or "ray://HOST:PORT". None: RAY_ADDRESS if it is set, else
    a runtime that is up on this machine, else one started for this run."""
    if on == "ray" or on.startswith("ray://"):
        return None if on == "ray" else on
    if on.startswith("ray:") and on != "ray:":
        return on.removeprefix("ray:")
    raise UserError(f"--on {on!r} is not of the form ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT")


def needs_of(device: str, jobs: int) -> dict[str, int]:
    """The resources that a cell needs, by Ray's names."""
    if device not in ("cpu", "cuda"):
        raise UserError(f"on Ray, --device is cpu or cuda, not {device!r}: Ray chooses which GPU")
    return {"CPU": jobs} if device == "cpu" else {"CPU": 1, "GPU": 1}


@contextmanager
def connected(on: str, device: str, jobs: int) -> Iterator[int]:
    """Connect to Ray in this context; yields the number of cells that its nodes can train at the same time."""
    address, needs, ray, before = (
        address_of(on),
        needs_of(device, jobs),
        ray_package(),
        signal.getsignal(signal.SIGTERM),
    )
    _check_answers(address or os.environ.get("RAY_ADDRESS", ""))
    try:
        _join(ray, address)
    except Exception as error:  # of many kinds, depending on what is wrong with the address or the runtime
        where = "on this machine" if address is None else f"at {address}"
        raise UserError(f"cannot use Ray {where}: {last_line(error)}{_token_hint(address)}") from None
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray's own handler would end the process at once
    try:
        count = room_of(ray, needs)
        if count == 0:
            wanted = " and ".join(f"{amount} {name}" for name, amount in needs.items())
            raise UserError(f"no node of the Ray cluster has {wanted}, which every cell needs")
        yield count
    finally:
        ray.shutdown()


def _token_hint(address: str | None) -> str:
    """Explain that a cluster may need a token and none was sent; Ray's own message does not say so."""
    if address is None or os.environ.get("RAY_AUTH_MODE") == "token":
        return ""
    return " (a cluster that asks for a token needs RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here)"


def _join(ray: Any, address: str | None) -> None:
    """Connect to a runtime, or start one here; on a busy machine it may take longer to start than Ray waits."""
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    if address not in (None, "local") or os.environ.get("RAY_ADDRESS") or (address is None and _is_up()):
        ray.init(address, **options)
        return
    _keep_token_private()
    for left in reversed(range(STARTS)):
        try:
            with _on_localhost():
                ray.init("local", **options)
            return
        except Exception:
            if left == 0:
                raise
            ray.shutdown()


def _is_up() -> bool:
    """Whether a cluster runs on this machine that Ray would join by default."""
    services = importlib.import_module("ray._private.services")
    services.find_gcs_addresses.cache_clear()
    return bool(services.find_gcs_addresses()) and services.find_bootstrap_address(None) is not None


@contextmanager
def _on_localhost() -> Iterator[None]:
    """A runtime started in this context listens on localhost only, unless the user has set Ray's own variable. Ray's
    default depends on the system: on some it listens on all interfaces."""
    if CLUSTERS in os.environ:
        yield
        return
    constants: Any = importlib.import_module(
        "ray._private.ray_constants"
    )  # which read the variable when it was imported
    before = constants.ENABLE_RAY_CLUSTER
    os.environ[CLUSTERS], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        del os.environ[CLUSTERS]
        constants.ENABLE_RAY_CLUSTER = before


def _keep_token_private() -> None:
    """Create the file with Ray's token before Ray does, which would make it readable for everybody. The permissions of
    an existing file are corrected."""
    if any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        return
    with suppress(OSError, RuntimeError):  # RuntimeError: no home folder; Ray reports that itself
        path = Path.home() / ".ray" / "auth_token"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = open_without_links(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            path.chmod(0o600)
            return
        with open(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))


def _check_answers(address: str) -> None:
    """Raise UserError unless a server answers at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UserError(f"no Ray answers at {address}: {reason_of(error)}") from None


def room_of(ray: Any, needs: dict[str, int]) -> int:
    """The number of cells that the available nodes can train at the same time."""
    return sum(_rooms(ray, needs).values())


def able(ray: Any, needs: dict[str, int]) -> set[str]:
    """The available nodes that are large enough for a cell, by id. The head often has no room for cells."""
    return {node for node, room in _rooms(ray, needs).items() if room > 0}


def _rooms(ray: Any, needs: dict[str, int]) -> dict[str, int]:
    """The number of cells that each available node can train at the same time."""
    nodes = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
    return {node: min(int(has.get(name, 0) // amount) for name, amount in needs.items()) for node, has in nodes.items()}


def last_line(error: Exception) -> str:
    """The last line of Ray's message, which is the cause."""
    return [type(error).__name__, *filter(None, map(str.strip, str(error).splitlines()))][-1]


def ray_package() -> Any:
    """Import Ray. On import it reads whether it may report its use over the network."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise UserError("--on ray needs Ray: pip install 'cgipool[ray]'") from None
