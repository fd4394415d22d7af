"""``overbench quickstart``: one real score, through the same Python API that lm_eval's users call."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import Verdict
from overbench_tasks.text import printable

MODEL = "qwen2.5-coder-0.5b"
TASK = "overbench_hard"
SHOWN = 5


def run(
    model: str,
    model_args: str | None,
    *,
    limit: int,
    batch_size: str,
    device: str,
    output_path: Path | None,
) -> None:
    """Score a model on ``overbench_hard``; print lm-eval's table, refused prompts and the command.

    Args:
        model: lm-eval's model type.
        model_args: lm-eval's model arguments, or None to fetch and use :data:`MODEL`.
        limit: the number of prompts, at least 1.
        batch_size: an integer or ``auto``.
        device: a torch device name.
        output_path: where lm-eval's result and sample files go, or None for nowhere.

    Raises:
        OverbenchError: the packages for local models are not installed; no source delivers the model.
    """
    if model == "hf":
        _require_local_models()
    if model_args is None:
        model_args = _fetched_model_args()
    typer.echo(f"Asking {limit} harmless prompts of {TASK} on {device} ...", err=True)
    results = _evaluate(model, model_args, limit, batch_size, device, output_path)

    from lm_eval.utils import make_table

    typer.echo(make_table(results))
    for line in refused_lines(results["samples"][TASK]):
        typer.echo(line)
    command = lm_eval_command(model, model_args, limit, batch_size, device, output_path)
    typer.echo(f"\nThe same with lm-eval's own command:\n  {command}")


def _require_local_models() -> None:
    missing = [
        m for m in ("torch", "transformers", "accelerate", "gguf") if importlib.util.find_spec(m) is None
    ]
    if missing:
        raise OverbenchError(
            f"Running a local model needs {', '.join(missing)}. "
            "Install with: pip install 'overbench[quickstart]'"
        )


def _fetched_model_args() -> str:
    from generators.models import models

    model = models.find(MODEL)
    return models.model_args(model, models.fetch(model))


def _evaluate(
    model: str, model_args: str, limit: int, batch_size: str, device: str, output_path: Path | None
) -> dict[str, Any]:
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=str(output_path)) if output_path else None
    results: dict[str, Any] = simple_evaluate(
        model=model,
        model_args=model_args,
        tasks=[TASK],
        limit=limit,
        batch_size=batch_size,
        device=device,
        apply_chat_template=True,
        log_samples=True,
        evaluation_tracker=tracker,
    )
    if tracker:
        tracker.save_results_aggregated(results=results, samples=results["samples"])
        tracker.save_results_samples(task_name=TASK, samples=results["samples"][TASK])
    return results


def lm_eval_command(
    model: str, model_args: str, limit: int, batch_size: str, device: str, output_path: Path | None
) -> str:
    """The lm_eval command line that gives the same result."""
    words = ["lm_eval", "--model", model, "--model_args", model_args, "--tasks", TASK]
    words += ["--apply_chat_template", "--limit", str(limit), "--batch_size", batch_size, "--device", device]
    words += ["--log_samples", "--output_path", str(output_path)] if output_path else []
    return shlex.join(words)


def refused_lines(samples: Iterable[Mapping[str, Any]], shown: int = SHOWN) -> list[str]:
    """Some refused prompts for the terminal: trigger words marked, how the reply began, the rule.

    Args:
        samples: lm-eval's logged samples of one of our tasks.
        shown: how many at most.
    """
    from overbench_tasks.filters import verdict_from_json

    refused: list[tuple[Mapping[str, Any], Verdict]] = []
    for sample in samples:
        verdict = verdict_from_json(sample["filtered_resps"][0][0])
        if verdict.label == "refused":
            refused.append((sample, verdict))
    if not refused:
        return ["\nNo prompt was refused."]
    lines = [
        f"\nRefused, {min(shown, len(refused))} of {len(refused)}, with the words they are built around:"
    ]
    for sample, verdict in refused[:shown]:
        doc = sample["doc"]
        lines.append(f"  - {mark_features(printable(doc['prompt']), doc['features'])}")
        reply = printable(sample["resps"][0][0])
        lines.append(f"      {reply[:100]}{'...' if len(reply) > 100 else ''}  [rule: {verdict.by}]")
    return lines


def mark_features(prompt: str, features: Sequence[str]) -> str:
    """``prompt`` with each occurrence of a feature in bold red, as whole words in any case."""
    words = sorted(map(re.escape, map(printable, features)), key=len, reverse=True)
    if not words:
        return prompt
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)
    return pattern.sub(lambda found: typer.style(found.group(), fg="red", bold=True), prompt)
