"""Workers on Ray: on this machine, started for the job, or on a cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

from gnomon.api.bulk.worker import Answer, Worker
from gnomon.errors import RecipeError, RunError, in_one_line

STARTS = 5  # Ray gives itself 30 seconds to start, which a busy machine may not keep
STORE = 100 << 20  # bytes of Ray's shared memory: what goes through it are numbers of parts


class OnRay:
    """Runs workers with Ray Data.

    Args:
        workers: processes, each with the model in memory; None: as many as there are cores (or
            GPUs) for.
        threads: of each.
        address: of a cluster, as for `ray.init`; None: RAY_ADDRESS, or else this machine.

    Raises:
        RecipeError: no workers or no threads.
        RunError: Ray is not installed.
    """

    def __init__(
        self, *, workers: int | None = None, threads: int = 1, address: str | None = None
    ) -> None:
        if threads < 1 or (workers is not None and workers < 1):
            raise RecipeError(
                "there must be a worker and a thread at least",
                seen=f"workers {workers}, threads {threads}",
            )
        # Read when Ray begins: nothing is told to anybody outside, and nothing to the user that is
        # Ray's own affair, such as where it keeps the arguments of an actor.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        try:
            import ray.data
        except ImportError as error:
            raise RunError(
                "work on Ray needs Ray", seen=error, mend="pip install 'gnomon[ray]'"
            ) from error
        self._ray: Any = ray  # which is typed in part
        self.workers = workers
        self.threads = threads
        self.address = address or os.environ.get("RAY_ADDRESS") or "local"

    @property
    def num_threads(self) -> int:
        """Threads a worker."""
        return self.threads

    def run(self, worker: Worker, count: int) -> Iterator[Answer]:
        """See `Engine.run`. A Ray that this process uses already is used, and left running.

        Raises:
            RunError: no cluster there, or one without a machine that has room for a worker.
        """
        started = not self._ray.is_initialized()
        if started:
            self.start()
        try:
            yield from self._answers(worker, count)
        finally:
            if started:
                self._ray.shutdown()

    def start(self) -> None:
        """Start Ray, or find the cluster; `run` does it by itself where this was not done."""
        same: dict[str, Any] = {
            "address": self.address,
            "log_to_driver": False,
            "logging_level": "ERROR",
        }
        if self.address == "local":
            workers = self.workers or max(1, _num_cores() // self.threads)
            same |= {
                "num_cpus": workers * self.threads,
                "include_dashboard": False,
                "object_store_memory": STORE,
            }
        for left in reversed(range(STARTS)):
            try:
                self._ray.init(**same)
                return
            except Exception as error:  # plain exceptions, among others
                self._ray.shutdown()
                if not left or self.address != "local":
                    raise RunError(
                        "Ray must be there and start",
                        seen=f"{self.address}: {in_one_line(error)}",
                        mend="try again when the machine is less busy"
                        if self.address == "local"
                        else "check --ray-address and RAY_ADDRESS; without, Ray starts here",
                    ) from error

    def _answers(self, worker: Worker, count: int) -> Iterator[Answer]:
        data = self._ray.data
        gpus = self._gpus(worker.job.device)
        most = self._room(gpus)
        size = min(self.workers or most, count)
        rows = data.from_items(list(range(count)), override_num_blocks=count)
        # On the data set's own settings: those of the process are the user's.
        rows.context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        answers = rows.map(
            _Actor,
            fn_constructor_args=(worker,),
            compute=data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
            **({"num_gpus": 1} if gpus else {"num_cpus": self.threads}),
        )
        try:
            yield from answers.iter_rows()
        except self._ray.exceptions.RayError as error:
            raise RunError(
                "the workers must be able to work",
                seen=in_one_line(error),
                mend="what is done stays: the same command goes on from there",
            ) from error

    def _gpus(self, device: str) -> bool:
        there = self._ray.cluster_resources().get("GPU", 0) >= 1
        return device == "cuda" or (device == "auto" and there)

    def _room(self, gpus: bool) -> int:
        """How many workers there is room for now."""
        name, need = ("GPU", 1) if gpus else ("CPU", self.threads)
        room = sum(
            int(node["Resources"].get(name, 0)) // need
            for node in self._ray.nodes()
            if node["Alive"] is True
        )
        if not room:
            raise RunError(
                "a machine must have room for a worker",
                seen=f"no machine of Ray's has {need} {name}",
                mend="lower --threads, or give --device cpu",
            )
        return room


class _Actor:
    """What Ray makes of a worker in each of its processes."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def __call__(self, row: dict[str, Any]) -> Answer:
        return self.worker(row)


def _num_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
