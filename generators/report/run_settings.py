"""How each target was run, as its logs tell it, or else the release that its answers come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators.release.read import Release
from generators.release.release_inputs import Log
from generators.targets.naming import TargetRecord, joined


@dataclass(frozen=True)
class Setting:
    """How a target was run.

    Attributes:
        tasks: the tasks and their versions, or the release that its answers come from.
        decoding: ``greedy``, or what was sampled with; None where a release alone speaks of it.
        seconds: all its runs together; None where no log says.
    """

    target: TargetRecord
    tasks: str
    decoding: str | None = None
    seconds: float | None = None


def run_settings(logs: Sequence[Log], release: Release | None) -> list[Setting]:
    """The settings of all targets, by name."""
    settings = list(_of_logs(logs))
    if release is not None:
        told = f"release {release.name} {release.version}"
        known = {setting.target.target for setting in settings}
        settings += [Setting(one, told) for one in release.targets() if one.target not in known]
    return sorted(settings, key=lambda setting: setting.target.target)


def _of_logs(logs: Sequence[Log]) -> Iterator[Setting]:
    by_target = defaultdict(list)
    for log in logs:
        by_target[log.target.target].append(log.run)
    for name, target in joined(log.target for log in logs).items():
        runs = by_target[name]
        tasks = sorted({f"{run.task} {_version(run.metadata)}" for run in runs})
        decodings = sorted({_decoding(run.generation) for run in runs})
        # The tasks of one lm-eval run share its time.
        seconds = {run.date: run.seconds for run in runs if run.seconds is not None}
        yield Setting(target, "; ".join(tasks), "; ".join(decodings), sum(seconds.values()) or None)


def _decoding(generation: Mapping[str, Any]) -> str:
    if not generation.get("do_sample") and not generation.get("temperature"):
        return "greedy"
    shown = [name for name in ("temperature", "top_p", "top_k") if name in generation]
    return ", ".join(["sampled", *(f"{name} {generation[name]}" for name in shown)])


def _version(metadata: Mapping[str, Any]) -> str:
    source = metadata.get("overbench_source")
    # Only the last part: where a file lies on somebody's machine is nobody else's business.
    return f"version {metadata.get('version')}" + (f", from {Path(str(source)).name}" if source else "")
