"""What a Ray worker does: one lm_eval on some shards, each of which is then kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from overbench.campaign.campaign_folder import check_there
from overbench.campaign.campaign_jobs import CampaignJob, environment, lm_eval_argv, with_port
from overbench.campaign.engines.processes import last_lines, start, stop
from overbench.campaign.engines.servers import Servers
from overbench.campaign.engines.shards import Shard, ShardStore
from overbench.campaign.finished_cells import ReplyCount, count_replies
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.logs import read_run, sample_logs
from overbench_tasks.prompts.task_dataset import KEPT_PROMPTS
from overbench_tasks.text import number_of

PACK_SUFFIX: Final = ".json"
"""Of the file beside a cache that names the shards it is of, until all are kept."""
_LOG_CHARS: Final = 20_000


@dataclass(frozen=True)
class ShardRun:
    """One lm_eval.

    Attributes:
        job: the one that the shards are part of.
        shards: at most one of each of its cells.
        address: of the :class:`~overbench.campaign.engines.shards.ShardStore`.
        cache: for ``--use_cache``; None: the node does not see the campaign's folder, and replies are kept
            with their shard alone.
        out: the campaign's folder.
    """

    job: CampaignJob
    shards: tuple[Shard, ...]
    address: str
    cache: Path | None
    out: Path


@dataclass(frozen=True)
class ShardRunFailure:
    """Why shards were not kept; ``log`` is the end of what the process said."""

    why: str
    log: str


def run_shards(run: ShardRun) -> ShardRunFailure | None:
    """Ask what is not kept yet of some shards, and keep it; errors become the failure.

    Whatever else happens to this process is for Ray to see to: started again, it finds what is kept.
    """
    with TemporaryDirectory(prefix="overbench-") as folder:
        log = Path(folder) / "log.txt"
        try:
            _run(run, Path(folder), log)
        except (OverbenchError, OSError) as error:
            said = log.read_text("utf-8", "replace")[-_LOG_CHARS:] if log.is_file() else ""
            return ShardRunFailure(str(error), said)
    return None


def _run(run: ShardRun, folder: Path, log: Path) -> None:
    if run.cache is not None:
        check_there(run.out)
    store = ShardStore(run.address)
    shards = [one for one in run.shards if not store.has(one)]
    if not shards:
        return
    store.note_start(shards)
    try:
        _ask(run, shards, store, folder, log)
    finally:
        store.forget_start(shards)


def _ask(run: ShardRun, shards: list[Shard], store: ShardStore, folder: Path, log: Path) -> None:
    cells, output = [one.cell for one in shards], folder / "output"
    for cell in cells:
        cell.task_spec.write(folder / "tasks")
    positions = folder / "samples.json"
    positions.write_text(
        json.dumps({one.cell.task_spec.task: list(range(one.start, one.stop)) for one in shards})
    )
    words = lm_eval_argv(cells, folder / "tasks", run.cache or folder / "cache", output)
    told = _environment(run, store.kept_prompts(cell.task_spec for cell in cells))
    servers = Servers(run.out, logs=folder, any_port=True)
    try:
        with servers.serving(run.job) as port:
            process = start(with_port([*words, "--samples", str(positions)], port), log, told)
            try:
                process.wait()
            finally:
                stop(process)
    finally:
        servers.stop()
    if process.returncode:
        raise OverbenchError(f"exit code {process.returncode}: {last_lines(log)}")
    if run.cache is not None:
        check_there(run.out)
    _keep(shards, store, output, run.job.max_failed)
    for file in run.cache.parent.glob(f"{run.cache.name}[_.]*") if run.cache else ():
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)


def _environment(run: ShardRun, kept: dict[str, str]) -> dict[str, str]:
    """Of lm_eval, with where its tasks' prompts are. What a judge says is kept beside the replies, and not on
    the node, so that another node on which the shards are redone pays for none of it again."""
    verdicts = {} if run.cache is None else {"OVERBENCH_CACHE": f"{run.cache}.verdicts"}
    return {**environment(run.out), **verdicts, KEPT_PROMPTS: json.dumps(kept)}


def _keep(shards: list[Shard], store: ShardStore, output: Path, max_failed: float) -> None:
    """Keep the shards that can be, then raise what is wrong with the others."""
    logs = {read_run(log).task: log for log in sample_logs(output)}
    problems = []
    for shard in shards:
        name = f"{shard.cell.name}, prompts {shard.start} to {shard.stop - 1}"
        log = logs.get(shard.cell.task_spec.task)
        try:
            found = count_replies(log) if log else ReplyCount()
            if log is None or found.prompts != len(shard):
                raise OverbenchError(
                    f"{name}: expected replies to {number_of(len(shard), 'prompt')}, found "
                    f"{found.prompts:,}. Was the disk full?"
                )
            found.check_failed(name, max_failed)
            store.put(shard, [log, *log.parent.glob("results_*.json")])
        except OverbenchError as error:
            problems.append(str(error))
    if problems:
        raise OverbenchError(" ".join(problems))
