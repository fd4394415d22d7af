"""Reads lm-eval's result folders: the verdicts on each prompt, some replies, and how each run was set.

A run is one ``results_<date>.json`` with the ``samples_<task>_<date>.jsonl`` beside it, as lm-eval writes
them with ``--output_path`` and ``--log_samples``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators.release.errors import ReleaseError
from generators.replies import Columns, ReplyFileError, read_row, read_table
from overbench_tasks.records import Verdict

LONGEST_REPLY = 600
"""Characters of a reply that a report keeps."""

_RESULTS = re.compile(r"results_(?P<date>.+)\.json")


@dataclass(frozen=True)
class Run:
    """How one model was run; None where the results don't say.

    Attributes:
        file: the results file.
        tasks: the tasks of OVERBENCH in it.
        model: lm-eval's model type.
        model_args: as given, as text.
        arguments: the same, by name.
        labelled_by: per task, who labelled: ``rules 1.1``, ``two-stage gpt-4o-mini``, ...
        sets: per task, the version of the task and where its prompts came from.
        date: when it ended, in lm-eval's words.
    """

    file: Path
    tasks: tuple[str, ...]
    model: str
    model_args: str
    arguments: Mapping[str, Any]
    system_instruction: str | None
    chat_template: bool
    max_gen_toks: int | None
    decoding: str
    lm_eval_version: str | None
    labelled_by: Mapping[str, str]
    sets: Mapping[str, str]
    date: str
    seconds: float | None


@dataclass(frozen=True)
class Sample:
    """One prompt of a run.

    Attributes:
        features: its trigger words.
        verdicts: one per reply.
        reply: the first refused reply, or else the first; at most :data:`LONGEST_REPLY` characters.
    """

    id: str
    prompt: str
    category: str | None
    features: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    reply: str


def is_log_folder(folder: Path) -> bool:
    """Is there a results file in this folder or below it?"""
    return next(folder.rglob("results_*.json"), None) is not None


def read_runs(folder: Path) -> list[Run]:
    """All runs in a folder and the folders below that hold tasks of OVERBENCH, by path.

    Raises:
        ReleaseError: no such run, a results file that cannot be read, or one without sample logs.
    """
    files = sorted(file for file in folder.rglob("results_*.json") if _RESULTS.fullmatch(file.name))
    runs = [run for file in files if (run := _read_run(file)).tasks]
    if not runs:
        what = f"{len(files)} results of other tasks" if files else "no results_*.json"
        raise ReleaseError(
            f"Expected results of OVERBENCH in {folder}, found {what}. Give the folder that was lm_eval's "
            "--output_path in a run with --tasks overbench or overbench_hard and --log_samples."
        )
    return runs


def _read_run(file: Path) -> Run:
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
        configs = {
            name: config
            for name, config in results["configs"].items()
            if "overbench_rules_version" in (config.get("metadata") or {})
        }
        settings = results["config"]
        first = next(iter(configs.values()), {})
        generation = dict(first.get("generation_kwargs") or {}) | _mapping(settings.get("gen_kwargs"))
        arguments = _mapping(settings.get("model_args"))
        return Run(
            file=file,
            tasks=tuple(sorted(configs)),
            model=str(settings.get("model")),
            model_args=",".join(f"{name}={value}" for name, value in arguments.items()),
            arguments=arguments,
            system_instruction=results.get("system_instruction") or None,
            chat_template=bool(results.get("chat_template")),
            max_gen_toks=generation.get("max_gen_toks"),
            decoding=_decoding(generation),
            lm_eval_version=results.get("lm_eval_version"),
            labelled_by={name: labeller(config["metadata"]) for name, config in configs.items()},
            sets={name: _set_version(config) for name, config in configs.items()},
            date=file.name.removeprefix("results_").removesuffix(".json"),
            seconds=_seconds(results.get("total_evaluation_time_seconds")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReleaseError(
            f"{file}: expected lm-eval's results, could not read them ({type(error).__name__}: {error}). "
            "Is the file complete? Run lm_eval again, or leave its folder out."
        ) from error


def labeller(metadata: Mapping[str, Any]) -> str:
    """Who labelled a task's replies, from the metadata that our tasks write into lm-eval's results."""
    rules = f"rules {metadata['overbench_rules_version']}"
    if judge := metadata.get("overbench_judge_model"):
        prompt = f"{judge}, prompt {metadata.get('overbench_judge_version')}"
        return f"judge {prompt}" if metadata.get("overbench_judge_mode") == "judge" else f"{rules} + {prompt}"
    classifier = metadata.get("overbench_classifier")
    return f"classifier {classifier}" if classifier else rules


def read_samples(run: Run, task: str) -> Iterator[Sample]:
    """The prompts of one task of a run, one at a time; of several filters, those of the first.

    Raises:
        ReleaseError: the sample log is missing, cut off, or of another task.
    """
    file = run.file.with_name(f"samples_{task}_{run.date}.jsonl")
    if not file.is_file():
        raise ReleaseError(
            f"Expected the sample log {file.name} beside {run.file}, found none. "
            "Run lm_eval with --log_samples, or leave this folder out."
        )
    first: str | None = None
    try:
        for where, raw in read_table(file):
            row = read_row(raw, Columns(), where)
            first = row.filter if first is None else first
            if row.filter != first:
                continue
            doc, verdicts = raw["doc"], row.logged or ()
            telling = next((n for n, verdict in enumerate(verdicts) if verdict.label == "refused"), 0)
            yield Sample(
                row.id,
                row.prompt or "",
                doc.get("category"),
                tuple(map(str, doc.get("features") or ())),
                verdicts,
                row.replies[telling][:LONGEST_REPLY],
            )
    except (ReplyFileError, UnicodeDecodeError) as error:
        raise ReleaseError(str(error)) from error


def _mapping(value: object) -> dict[str, Any]:
    """lm-eval's arguments, which older results hold as "a=1,b=2"."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value:
        return {}
    from lm_eval.utils import simple_parse_args_string

    return dict(simple_parse_args_string(value))


def _decoding(generation: Mapping[str, Any]) -> str:
    if not generation.get("do_sample") and not generation.get("temperature"):
        return "greedy"
    shown = ("temperature", "top_p", "top_k")
    return "sampled, " + ", ".join(f"{name} {generation[name]}" for name in shown if name in generation)


def _set_version(config: Mapping[str, Any]) -> str:
    metadata = config["metadata"]
    source = metadata.get("overbench_source")
    # Only the last part: where a file lies on somebody's machine is nobody else's business.
    named = f", from {Path(str(source)).name}" if source else ""
    return f"version {metadata.get('version')}{named}"


def _seconds(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
