"""Cells on many machines: each a task of Ray's, tried again where a worker or its machine is lost."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from engram.errors import InputError
from engram.study.folder import STUDY, write_failure
from engram.study.processes import Ended, Event, Started
from engram.study.worker import Order, work

TICK = 1.0
RETRIES = 5
PATIENCE = 10.0


def on_ray(orders: Sequence[Order], address: str, jobs: int | None) -> Generator[Event, None, None]:
    """As `in_processes`; a cell's checkpoint is where a lost one goes on, so all machines must share the folder."""
    ray = _ray()
    threads = orders[0].machine.threads if orders else 1
    if not orders:
        return
    _connect(ray, address, jobs, threads)
    try:
        gpus = ray.cluster_resources().get("GPU", 0)
        share = min(1.0, gpus / jobs) if gpus and jobs else min(1.0, gpus)
        task = ray.remote(num_cpus=threads, num_gpus=share, max_retries=RETRIES)(_work)
        yield from _shepherd(ray, task, orders, jobs, threads, share)
    finally:
        ray.shutdown()


def _shepherd(
    ray: Any, task: Any, orders: Sequence[Order], jobs: int | None, threads: int, share: float
) -> Generator[Event, None, None]:
    waiting = deque(orders)
    running: dict[Any, Order] = {}
    while waiting or running:
        while waiting and len(running) < (jobs or _room(ray, threads, share)):
            order = waiting.popleft()
            running[task.remote(order.to_json())] = order
            yield Started(order.cell)
        for reference in ray.wait(list(running), timeout=TICK)[0]:
            order = running.pop(reference)
            yield Ended(order.cell, _outcome(ray, reference, order))


def _work(order: str) -> str | None:
    """Runs on a worker."""
    asked = Order.from_json(order)
    if not Path(asked.folder, STUDY).exists():
        return f"a machine does not see {asked.folder}: with Ray, --out must be a folder that all machines share"
    return work(asked)


def _outcome(ray: Any, reference: Any, order: Order) -> str | None:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        reason = f"Ray lost it {RETRIES + 1} times ({type(error).__name__})"
        write_failure(order.place, reason, str(error))
        return reason


def _room(ray: Any, threads: int, share: float) -> int:
    """How many cells the cluster, which may grow, can hold now."""
    resources = ray.cluster_resources()
    room = resources.get("CPU", 1) // threads
    return max(1, int(min(room, resources.get("GPU", 0) / share) if share else room))


def _connect(ray: Any, address: str, jobs: int | None, threads: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        _knock(address)
        if address == "local":
            ray.init("local", num_cpus=jobs * threads if jobs else None, include_dashboard=False, **quiet)
        else:
            ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Ray cannot be reached at {address!r} ({error}): give local or a cluster's address."
        ) from error


def _knock(address: str) -> None:
    """Ray itself would wait for minutes for a machine that does not answer."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), PATIENCE).close()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray, which is not installed: pip install 'engram[ray]'.") from None
    return ray
