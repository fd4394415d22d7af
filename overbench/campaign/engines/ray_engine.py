"""Jobs carried out on a Ray cluster: shards of prompts are Ray tasks, with their GPUs and memory.

What runs where, when, and again where a worker or a node dies, is Ray's. What is kept is kept by shard: a
task that is started again, or a campaign, asks for nothing that is there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from overbench.campaign.campaign_cells import CampaignCell, hashed
from overbench.campaign.campaign_folder import check_there
from overbench.campaign.campaign_jobs import LOG, SHARDS, CampaignJob
from overbench.campaign.campaign_settings import RaySettings
from overbench.campaign.engines.engine import JobResult, failed
from overbench.campaign.engines.joined_shards import join_shards
from overbench.campaign.engines.local_engine import SAY_EVERY_SEC, run_job
from overbench.campaign.engines.processes import end_left_over
from overbench.campaign.engines.servers import Servers
from overbench.campaign.engines.shard_worker import PACK_SUFFIX, ShardRun, ShardRunFailure, run_shards
from overbench.campaign.engines.shards import Shard, ShardStore, packed, shards_of
from overbench.campaign.finished_cells import take_in
from overbench_tasks.errors import OverbenchError
from overbench_tasks.tables import whole_file

GIB: Final = 2**30
_OF_NODES: Final = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
"""What a task takes, by Ray's option -> the same of a node."""
_NOT_SEEN: Final = (
    "A refresh, or a cell with stop_at_ci_width, works in the campaign's folder, which the nodes don't see "
    "where ray.shards is set. Let that out, or use --engine local."
)


class RayEngine:
    """Runs jobs on a Ray cluster.

    Args:
        settings: how cells are cut, and where shards are kept.
        address: of a standing cluster, as ``ray.init`` takes it: ``auto``. None: Ray is started here.
        say: told what is at work, a line at a time.

    Raises:
        OverbenchError: Ray is not installed.
    """

    def __init__(
        self,
        settings: RaySettings,
        address: str | None = None,
        say: Callable[[str], object] = lambda line: None,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise OverbenchError("The engine ray needs Ray: pip install 'overbench[ray]'.") from error
        self._ray: Any = ray
        self._settings = settings
        self._address = address
        self._say = say

    def run(self, jobs: Sequence[CampaignJob], out: Path, on_result: Callable[[JobResult], None]) -> None:
        """See :class:`~overbench.campaign.engines.engine.Engine`; each cell is told of as it is done."""
        if not jobs:
            return
        end_left_over(out)
        address = self._settings.shards or str(out / SHARDS)
        with self._connected():
            at_work: dict[Any, CampaignJob | ShardRun] = {}
            cells = _Cells(jobs, out, ShardStore(address), self._settings.shard_prompts, on_result)
            try:
                for job in jobs:
                    if _in_one(job) and self._settings.shards:
                        on_result(failed(job, out, OverbenchError(_NOT_SEEN), job.shown()))
                    elif _in_one(job):
                        at_work[self._task(_run_in_one, job).remote(_with_own_cache(job), out)] = job
                for run in cells.runs(address, shared=not self._settings.shards):
                    at_work[self._task(run_shards, run.job).remote(run)] = run
                self._wait(at_work, cells)
            finally:
                for task in at_work:
                    self._ray.cancel(task, force=True)
                for job in jobs:
                    if not _in_one(job):
                        shutil.rmtree(job.folder(out), ignore_errors=True)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        if self._ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            self._ray.init(self._address or "local", log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise OverbenchError(
                f"No Ray cluster at {self._address}: {error}. Start one on this machine: ray start --head"
            ) from error
        try:
            yield
        finally:
            self._ray.shutdown()

    def _task(self, function: Callable[..., Any], job: CampaignJob) -> Any:
        """A task with what the job's target takes; a lost worker or node is Ray's to make up for."""
        return self._ray.remote(function).options(
            **_needs(job), name=job.name, max_retries=self._settings.max_retries
        )

    def _wait(self, at_work: dict[Any, CampaignJob | ShardRun], cells: _Cells) -> None:
        total = len(at_work)
        self._say_what_waits(at_work.values())
        while at_work:
            ended, _ = self._ray.wait(list(at_work), num_returns=1, timeout=SAY_EVERY_SEC)
            for task in ended:
                run = at_work.pop(task)
                try:
                    found = self._ray.get(task)
                except self._ray.exceptions.RayError as error:
                    # Of what the task raised, the traceback's last line; of what Ray says, its first.
                    lines = str(error).strip().splitlines() or [type(error).__name__]
                    raised = isinstance(error, self._ray.exceptions.RayTaskError)
                    found = ShardRunFailure(f"Ray: {lines[-1 if raised else 0]}", str(error))
                cells.ended(run, found)
            if not ended:
                self._say(f"{total - len(at_work):,} of {total:,} Ray tasks have ended")
                self._say_what_waits(at_work.values())

    def _say_what_waits(self, at_work: Iterable[CampaignJob | ShardRun]) -> None:
        """Name the targets that no node has room for, were it idle; their tasks wait for one that has."""
        nodes = [one["Resources"] for one in self._ray.nodes() if one["Alive"]]
        jobs = [one.job if isinstance(one, ShardRun) else one for one in at_work]
        for name, job in {job.target: job for job in jobs}.items():
            needs = {_OF_NODES[option]: count for option, count in _needs(job).items()}
            if not any(all(node.get(what, 0) >= count for what, count in needs.items()) for node in nodes):
                self._say(
                    f"{name} waits: no node has the cpus ({job.cpus:g}), gpus ({job.gpus:g}) and memory "
                    f"({job.memory:g} GiB) that it is to have. Start one that has (ray start), or stop this, "
                    "lower them and start again."
                )


def _needs(job: CampaignJob) -> dict[str, float]:
    """What a task of the job takes, as options of Ray's; memory in bytes."""
    needs = {"num_cpus": job.cpus, "num_gpus": job.gpus, "memory": job.memory * GIB}
    return {option: count for option, count in needs.items() if count or option == "num_cpus"}


def _in_one(job: CampaignJob) -> bool:
    """Whether it can't be cut: a refresh, or a cell that is asked until its interval is narrow enough."""
    return job.refreshes is not None or job.stop_at_ci_width > 0


def _with_own_cache(job: CampaignJob) -> CampaignJob:
    """Cells with stop_at_ci_width of one configuration are asked at once here, and SQLite on a shared folder
    is for one at a time."""
    if not job.stop_at_ci_width:
        return job
    own = f"{job.cache}-{job.key}"
    return replace(job, cache=own, command=tuple(own if word == job.cache else word for word in job.command))


def _run_in_one(job: CampaignJob, out: Path) -> JobResult:
    servers = Servers(out, logs=job.folder(out), any_port=True)
    try:
        return run_job(job, out, servers)
    finally:
        servers.stop()


class _Cells:
    """Which shards are still missing, and what to do once a cell lacks none."""

    def __init__(
        self,
        jobs: Sequence[CampaignJob],
        out: Path,
        store: ShardStore,
        most: int,
        on_result: Callable[[JobResult], None],
    ) -> None:
        self._jobs = [job for job in jobs if not _in_one(job)]
        self._out, self._store, self._most, self._on_result = out, store, most, on_result
        self._missing: dict[str, set[str]] = {}
        self._failed: dict[str, ShardRunFailure] = {}

    def runs(self, address: str, *, shared: bool) -> Iterator[ShardRun]:
        """The lm_evals that ask for what is missing; cells that miss nothing are done at once."""
        for job in self._jobs:
            missing: list[Shard] = []
            for cell in job.cells:
                own = [one for one in shards_of(cell, self._most) if not self._store.has(one)]
                self._store.forget_start(own)
                if len(own) > 1 and not self._prompts_kept(cell):
                    own = []
                self._missing[cell.place] = {one.name for one in own}
                missing += own
                if not own:
                    self._done(job, cell)
            if shared:
                for some, cache in self._with_caches(job, missing):
                    yield ShardRun(job, some, address, cache, self._out)
            else:
                for some in packed(missing, self._most):
                    yield ShardRun(job, some, address, None, self._out)

    def _prompts_kept(self, cell: CampaignCell) -> bool:
        """Whether shards of the cell can be asked."""
        try:
            self._store.keep_prompts(cell.task_spec)
        except Exception as error:  # whatever it is, other cells go on
            self._failed[cell.place] = ShardRunFailure(f"{cell.task_spec.name}: {error}", "")
        return cell.place not in self._failed

    def _with_caches(
        self, job: CampaignJob, missing: Sequence[Shard]
    ) -> Iterator[tuple[tuple[Shard, ...], Path]]:
        """What one lm_eval asks, and its cache: first what was asked together before, which has in there what
        it was told; then the others."""
        left, cache = {one.name: one for one in missing}, Path(job.cache)
        for note in sorted(cache.parent.glob(f"{cache.name}-*{PACK_SUFFIX}")):
            again = [left.pop(name) for name in json.loads(note.read_text("utf-8")) if name in left]
            if again:
                yield tuple(again), note.with_suffix("")
        for some in packed(left.values(), self._most):
            names = [one.name for one in some]
            made = Path(f"{cache}-{hashed({'shards': names})}")
            with whole_file(made.with_suffix(PACK_SUFFIX)) as file:
                json.dump(names, file)
            yield some, made

    def ended(self, run: CampaignJob | ShardRun, found: JobResult | ShardRunFailure | None) -> None:
        """Take in the cells that lack nothing any more; tell of those that can't be had."""
        if isinstance(found, JobResult):
            self._on_result(found)
            return
        if isinstance(run, CampaignJob):
            assert found is not None
            self._on_result(failed(run, self._out, OverbenchError(found.why), run.shown()))
            return
        for shard in run.shards:
            self._missing[shard.cell.place].discard(shard.name)
            if found is not None and not self._store.has(shard):
                self._failed.setdefault(shard.cell.place, found)
            if not self._missing[shard.cell.place]:
                self._done(run.job, shard.cell)

    def _done(self, of: CampaignJob, cell: CampaignCell) -> None:
        job = replace(of, key=f"{of.key}-{cell.task_spec.name}", name=cell.name, cells=(cell,))
        folder, lost = job.folder(self._out), self._failed.get(cell.place)
        try:
            check_there(self._out)
            if lost is not None:
                with whole_file(folder / LOG) as log:
                    log.write(lost.log)
                raise OverbenchError(lost.why)
            shutil.rmtree(folder, ignore_errors=True)
            join_shards(shards_of(cell, self._most), self._store, folder / "output")
            facts = take_in(job, self._out)
            shutil.rmtree(folder, ignore_errors=True)
        except Exception as error:  # whatever it is, other cells go on
            self._on_result(failed(job, self._out, error, job.shown()))
            return
        self._on_result(JobResult(job, facts, None))
