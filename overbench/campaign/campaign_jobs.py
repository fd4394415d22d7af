"""What an engine is given to do: processes, each with the cells that it finishes.

An evaluation is one ``python -m lm_eval``, as anyone would type it; a refresh one ``overbench refresh``. A
job is plain data, so that another engine can carry it to another machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from overbench.campaign.campaign_cells import (
    SEED_ARGUMENTS,
    CampaignCell,
    Configuration,
    hashed,
    server_of,
)
from overbench.campaign.campaign_settings import CampaignSettings
from overbench.campaign.target_settings import PORT, CampaignTarget, ServerSettings
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.refreshed import ACCEPTED_NAME
from overbench_tasks.tables import whole_file

CACHES, TASKS, WORK, REFRESHES, SHARDS = "caches", "tasks", "work", "refresh", "shards"
LOG: Final = "log.txt"
REFRESHED: Final = "campaign.done"
"""In the run directory of a refresh that has finished."""
CAMPAIGN_VARIABLE: Final = "OVERBENCH_CAMPAIGN"
"""In the environment of every process of a campaign: its folder."""
_ANY_PORT: Final = 8000
"""In a command that is shown, where no server was up."""


@dataclass(frozen=True)
class CampaignJob:
    """One process.

    Attributes:
        key: tells it from others, and names its folder; the same as long as it does the same.
        name: for people.
        command: its words; :data:`~overbench.campaign.target_settings.PORT` stands for the server's port.
        cells: those that it finishes; none of a refresh.
        cache: jobs with the same one don't run at once; "" for none.
        target: whose server is needed, where there is one.
        gpus, cpus, memory: that it takes; memory in GiB, 0 for not stated.
        refreshes, refresh_settings: of a refresh, the run directory, and its settings as YAML.
    """

    key: str
    name: str
    command: tuple[str, ...]
    cells: tuple[CampaignCell, ...]
    cache: str
    target: str
    server: ServerSettings | None
    served_model: str
    gpus: float
    cpus: float
    memory: float
    max_failed: float = 1.0
    refreshes: Path | None = None
    refresh_settings: str = ""

    @property
    def stop_at_ci_width(self) -> float:
        """Of the interval at which its one cell stops; 0: its cells ask all prompts."""
        return self.cells[0].task_spec.stop_at_ci_width if self.cells else 0.0

    def only(self, cells: Collection[str]) -> CampaignJob:
        """The job with those of its cells that are among these names."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.name in cells))

    def without(self, cells: Collection[str]) -> CampaignJob:
        """The job with its other cells."""
        return self.only({cell.name for cell in self.cells}.difference(cells))

    def folder(self, out: Path) -> Path:
        """Where it works; gone once its cells are done."""
        return out / WORK / self.key

    def words(self, port: int | None, limit: int | None = None) -> list[str]:
        """The command with the server's port and, of a cell that may stop early, how many prompts to ask."""
        words = with_port(self.command, port)
        return [*words, "--limit", str(limit)] if limit else words

    def shown(self, port: int | None = None, limit: int | None = None) -> str:
        """The command for a shell, after that of the server, if it needs one."""
        if self.server is None:
            return shlex.join(self.words(port, limit))
        port = port or self.server.port or _ANY_PORT
        words = shlex.join(self.words(port, limit))
        return f"{shlex.join(self.server_argv(port))}  # and once it is up, beside it: {words}"

    def server_argv(self, port: int) -> list[str]:
        """The command of the server."""
        assert self.server is not None
        return [filled(word, port, self.served_model) for word in shlex.split(self.server.command)]


def filled(template: str, port: int, model: str) -> str:
    """A word of a server's settings with what {port} and {model} stand for."""
    values = {"port": str(port), "model": model}
    return re.sub(r"\{(port|model)\}", lambda found: values[found[1]], template)


def with_port(words: Sequence[str], port: int | None) -> list[str]:
    """A command with the port of a server, where there is one."""
    return [word.replace(PORT, str(port)) if port else word for word in words]


def evaluations(
    cells: Sequence[CampaignCell], out: Path, *, together: bool, max_failed: float
) -> list[CampaignJob]:
    """The jobs that finish these cells: one for each configuration, or for each cell.

    A cell that may stop early has one of its own.
    """
    grouped: dict[tuple[object, ...], list[CampaignCell]] = defaultdict(list)
    for cell in cells:
        alone = () if together and not cell.task_spec.stop_at_ci_width else (cell.task_spec.name,)
        grouped[cell.configuration.name, cell.configuration.key, *alone].append(cell)
    return [_evaluation(some, out, max_failed) for some in grouped.values()]


def _evaluation(cells: list[CampaignCell], out: Path, max_failed: float) -> CampaignJob:
    one = cells[0].configuration
    key = f"{one.key}-{hashed({cell.name: cell.key for cell in cells})}"
    target = one.target
    cache = out / CACHES / f"{one.way}/{one.decoding}".replace("/", ",") / one.key  # whatever the repeats
    words = lm_eval_argv(cells, out / TASKS, cache, out / WORK / key / "output")
    sets = ", ".join(cell.task_spec.name for cell in cells)
    return CampaignJob(
        key=key,
        name=f"{one.name}: {sets}",
        command=tuple(words),
        cells=tuple(cells),
        cache=str(cache),
        target=target.name,
        server=target.server,
        served_model=target.served_model,
        gpus=target.gpus,
        cpus=target.cpus,
        memory=target.memory,
        max_failed=max_failed,
    )


def lm_eval_argv(cells: Sequence[CampaignCell], tasks: Path, cache: Path, output: Path) -> list[str]:
    """The command that asks cells of one configuration all of their prompts.

    Args:
        tasks: the folder of the sets that are tasks of their own.
        cache, output: for ``--use_cache`` and ``--output_path``.
    """
    one = cells[0].configuration
    target = one.target
    words = [sys.executable, "-m", "lm_eval", "--model", target.model, "--model_args", _model_args(one)]
    words += ["--tasks", ",".join(cell.task_spec.task for cell in cells)]
    if any(cell.task_spec.task_yaml for cell in cells):
        words += ["--include_path", str(tasks)]
    words += ["--apply_chat_template"] if target.apply_chat_template else []
    words += ["--system_instruction", one.system_text] if one.system_text else []
    if one.gen_kwargs:
        words += ["--gen_kwargs", ",".join(f"{name}={value}" for name, value in one.gen_kwargs.items())]
    words += ["--seed", str(one.seed)] if one.drawn.sampled else []
    words += ["--batch_size", target.batch_size] if target.batch_size else []
    words += ["--device", target.device] if target.device else []
    return [*words, "--use_cache", str(cache), "--log_samples", "--output_path", str(output)]


def _model_args(one: Configuration) -> str:
    given = one.target.model_args
    argument = SEED_ARGUMENTS.get(one.target.model)
    if one.repeat == 1 or argument is None:
        return given
    kept = [part for part in given.split(",") if not part.strip().startswith(f"{argument}=")]
    return ",".join([*kept, f"{argument}={one.seed}"])


def refresh_job(settings: CampaignSettings, target: CampaignTarget, out: Path) -> CampaignJob | None:
    """The refresh of a target; None where it has none.

    Raises:
        OverbenchError: a setting that can't be used.
    """
    port = target.server.port if target.server else 0
    found = settings.refresh_of(target, target.model_args.replace(PORT, str(port)))
    if found is None:
        return None
    told = found.model_dump(mode="json")
    run = out / REFRESHES / f"{target.name}-{hashed({**found.identity(), **server_of(target)})}"
    words = [sys.executable, "-m", "overbench.cli", "refresh", str(run.with_name(f"{run.name}.yaml"))]
    return CampaignJob(
        key=f"refresh-{run.name}",
        name=f"{target.name}: refresh",
        command=(*words, "--run_dir", str(run)),
        cells=(),
        cache=str(run),
        target=target.name,
        server=target.server,
        served_model=target.served_model,
        gpus=target.gpus,
        cpus=target.cpus,
        memory=target.memory,
        refreshes=run,
        refresh_settings=yaml.safe_dump(told, sort_keys=False, allow_unicode=True),
    )


def refreshed_prompts(run: Path) -> Path | None:
    """The prompts that a finished refresh accepted; None where it has not finished."""
    return run / "data" / ACCEPTED_NAME if (run / REFRESHED).is_file() else None


def mark_refreshed(run: Path) -> None:
    """A refresh has finished.

    Raises:
        OverbenchError: without a prompt.
        OSError: it can't be written.
    """
    if not (run / "data" / ACCEPTED_NAME).is_file():
        raise OverbenchError(f"No prompt passed all filters. Why: overbench status {run}")
    with whole_file(run / REFRESHED):
        pass


def start_afresh(job: CampaignJob, out: Path) -> Path:
    """The job's folder, without what a killed attempt left in it; the file for what the process says.

    Raises:
        OSError: it can't be written.
    """
    folder = job.folder(out)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (out / CACHES).mkdir(exist_ok=True)
    if job.refreshes is not None:
        with whole_file(job.refreshes.with_name(f"{job.refreshes.name}.yaml")) as file:
            file.write(job.refresh_settings)
    return folder / LOG


def environment(folder: Path) -> dict[str, str]:
    """Of every process that works in ``folder``: whatever it says is there at once, and what is left of it by
    a killed campaign can be found, unless it changes its title all over its environment, as vLLM's would."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", CAMPAIGN_VARIABLE: str(folder), "SPT_NOENV": "1"}
