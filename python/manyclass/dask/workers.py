"""The workers that train: where each shard is, waits that end, and who takes over from a worker that is lost.

Tasks are pinned to the worker of their shard, so that the scheduler neither moves nor repeats them by itself: what is
lost with a worker is made again by `Workers.wait`'s caller, from the last merge. Every wait looks at the workers each
second, so that none outlasts a lost worker by more than PATIENCE.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import distributed
import numpy as np

PATIENCE = 20.0  # seconds: less than what a user may be made to wait for an error, 30
GLANCE = 1.0  # seconds between looks at the workers


class LostWorkerError(Exception):
    """Some workers that have shards are gone, or give no sign of life."""

    def __init__(self, places: Iterable[str]) -> None:
        super().__init__(", ".join(sorted(places)))
        self.places = frozenset(places)


class Workers:
    """Workers of a cluster, one for each shard.

    Attributes
    ----------
    client : distributed.Client
    places : list of str
        The address of the worker of each shard.
    memory : float
        Bytes, the least limit of a worker that was ever seen.
    watched : set of str
        Workers without a shard on which a call waits.
    """

    def __init__(self, client: Any, places: Sequence[str] = ()) -> None:
        self.client, self.places = client, list(places)
        self.memory, self.watched = np.inf, set[str]()
        self._seen: dict[str, tuple[float, float, float]] = {}  # the last sign, when it came, when it took tasks
        self._answers: dict[str, Any] = {}

    def short_memory(self) -> str:
        """Say what to do where workers are lost again and again."""
        return (
            f"where memory is short (the least memory limit of a worker is {self.memory / 1e6:,.0f} MB), use more "
            "workers, smaller parts, or division='rows and classes', which holds a part of W on each"
        )

    def submit(self, number: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Let the worker of a shard call a function; return the future."""
        if self.client.status not in ("running", "connecting"):
            raise _gone(self.client)
        place = self.places[number % len(self.places)]
        return self.client.submit(function, *arguments, workers=[place], allow_other_workers=False, pure=False)

    def each(self, function: Callable[..., Any], inputs: Sequence[Any], *arguments: Any) -> list[Any]:
        """Let the worker of each shard call a function with what is its own; return the futures."""
        return [self.submit(number, function, shard_input, *arguments) for number, shard_input in enumerate(inputs)]

    def copies(self, futures: Sequence[Any]) -> list[Any]:
        """Copy the results of shards to the next workers; return the futures, none where there is one worker."""
        return [self.submit(i + 1, same, future) for i, future in enumerate(futures)] if len(self.places) > 1 else []

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Let two workers, if there are two, make the same object, so that one may be lost; return the futures."""
        return [self.submit(number, function, *arguments) for number in range(min(2, len(self.places)))]

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait until all tasks are done.

        Raises
        ------
        LostWorkerError
            If a worker is gone or silent.
        RuntimeError
            If the client or the scheduler is gone, or a task failed by other than a ValueError, which is raised as is.
        """
        while True:
            try:
                with suppress(TimeoutError):
                    distributed.wait(futures, timeout=GLANCE)
            except CancelledError as fault:
                self._check(futures)
                raise _gone(self.client) from fault
            self._check(futures)
            if all(future.status == "finished" for future in futures):
                return
            time.sleep(GLANCE / 10)  # some tasks are made again: the next look tells how they end

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Bring the results of futures, which are to be small, to the client."""
        self.wait(futures)
        try:
            return list(self.client.gather(list(futures)))
        except (CancelledError, OSError, KeyError) as fault:
            self._check(futures)
            raise _gone(self.client) from fault

    def _check(self, futures: Sequence[Any]) -> None:
        """Raise the error that there is; a lost worker counts before the errors that follow from it."""
        lost = (set(self.places) | self.watched) - self.live()
        if lost:
            raise LostWorkerError(lost)
        for future in futures:
            if future.status == "cancelled":
                raise _gone(self.client)
            if future.status == "error":
                fault = future.exception()
                if isinstance(fault, ValueError | TypeError):
                    raise fault
                advice = f"; {self.short_memory()}" if isinstance(fault, distributed.KilledWorker) else ""
                raise RuntimeError(f"training failed on a worker: {type(fault).__name__}: {fault}{advice}") from fault

    def live(self) -> set[str]:
        """Return the workers that give signs of life and take tasks."""
        if self.client.status != "running":
            raise _gone(self.client)
        now, addresses = time.monotonic(), set()
        with suppress(OSError):  # the scheduler is busy: its last answer counts
            self._answers = workers_of(self.client)
        for place, worker in self._answers.items():
            self.memory = min(self.memory, float(worker.get("memory_limit") or np.inf))
            sign, came, ran = self._seen.get(place, (np.nan, now, now))
            came = came if sign == worker["last_seen"] else now
            ran = now if worker.get("status") == "running" else ran
            self._seen[place] = (worker["last_seen"], came, ran)
            if now - min(came, ran) < PATIENCE:
                addresses.add(place)
        return addresses

    def some_live(self, lost: frozenset[str] = frozenset()) -> set[str]:
        """Return live workers other than the lost ones; raise RuntimeError if none comes within PATIENCE."""
        until = time.monotonic() + PATIENCE
        while not (live := self.live() - lost):
            if time.monotonic() > until:
                reason = f"training lost its last worker ({', '.join(sorted(lost))})" if lost else "there is no worker"
                raise RuntimeError(f"{reason}, and no other came within {PATIENCE:.0f} s")
            time.sleep(GLANCE / 4)
        return live

    def replace(self, lost: frozenset[str]) -> list[int]:
        """Put the shards of lost workers on others, those with the fewest first; return the numbers of the shards.

        Raises
        ------
        RuntimeError
            If no worker comes within PATIENCE.
        """
        live = self.some_live(lost)
        for place in lost & set(workers_of(self.client)):  # it is silent, and the scheduler would wait for its data
            self.client.run_on_scheduler(_remove, place=place)
        moved = [number for number, place in enumerate(self.places) if place in lost]
        for number in moved:
            self.places[number] = min(sorted(live), key=self.places.count)
        self.watched -= lost
        return moved

    def survivors(self, futures: Sequence[Any], lost: frozenset[str]) -> list[Any]:
        """Return those futures of one object that other workers hold than the lost ones.

        Raises
        ------
        LostWorkerError
            If there is none: training begins again.
        """
        there = [future for future in futures if self.holders(future, lost)]
        if not there:
            raise LostWorkerError(lost)
        return there

    def holders(self, future: Any, lost: frozenset[str] = frozenset()) -> set[str]:
        """Return the workers that hold the result of a future, without those that are lost."""
        addresses = self.client.who_has([future])
        return set(next(iter(addresses.values()), ())) - lost


def same(value: Any, *_after: Any) -> Any:
    """Return what it is given, after other tasks: a copy, where it is on another worker."""
    return value


def workers_of(client: Any) -> dict[str, Any]:
    """Ask the scheduler for all workers; raise OSError if it does not answer.

    `Client.scheduler_info` names five workers at most, and none for a moment every two seconds, when it is renewed.
    """
    if client.scheduler is None:
        raise _gone(client)
    workers: dict[str, Any] = client.sync(client.scheduler.identity)["workers"]
    return workers


async def _remove(place: str, dask_scheduler: Any = None) -> None:
    """Let the scheduler count a worker as gone."""
    await dask_scheduler.remove_worker(place, stimulus_id="manyclass-silent-worker", close=False)


def a_holder(client: Any, futures: Sequence[Any]) -> Any:
    """Return one of several futures of one object, which a live worker holds; raise RuntimeError where none does."""
    workers = Workers(client)
    live = workers.live()
    for future in futures:
        if workers.holders(future) & live:
            return future
    raise RuntimeError("the workers that had the model are gone; fit again (`to_local` or a pickle keeps a model)")


def _gone(client: Any) -> RuntimeError:
    return RuntimeError(f"training ended: the client is {client.status}, or has lost its tasks or the scheduler")
