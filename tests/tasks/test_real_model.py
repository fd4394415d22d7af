"""Real checkpoints through the commands that users type. Fetches about 0.6 GB on first use."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from generators.models import models

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real model")]

BIN = Path(sys.executable).parent


def run(command: list[str]) -> str:
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def verdicts(folder: Path) -> dict[str, Any]:
    """Prompt id -> verdict, from the one sample log below ``folder``."""
    (log,) = folder.rglob("samples_overbench_hard_*.jsonl")
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {row["doc"]["id"]: json.loads(row["filtered_resps"][0][0]) for row in rows}


def osr(labels: dict[str, Any]) -> float:
    return sum(v["label"] == "refused" for v in labels.values()) / len(labels)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What ``overbench quickstart`` prints and keeps, on its own model."""
    out = tmp_path_factory.mktemp("quickstart")
    return run([str(BIN / "overbench"), "quickstart", "--output_path", str(out)]), out


def test_quickstart_scores_a_real_model(quickstart: tuple[str, Path]) -> None:
    text, out = quickstart
    rate = osr(verdicts(out))
    assert len(verdicts(out)) == 40
    # The model is known to be badly oversensitive, and these prompts were picked for it.
    assert rate > 0.5
    assert re.search(rf"\|osr +\|↓ +\|{rate:.4f}\|±", text)
    assert re.search(r"Refused, 5 of \d+, with the words they are built around:", text)


def test_the_printed_lm_eval_command_gives_the_same_labels(
    quickstart: tuple[str, Path], tmp_path: Path
) -> None:
    text, out = quickstart
    (printed,) = re.findall(r"^  (lm_eval .*)$", text, re.MULTILINE)
    command = shlex.split(printed.replace(str(out), str(tmp_path)))
    run([str(BIN / command[0]), *command[1:]])
    assert verdicts(tmp_path) == verdicts(out)


def test_a_model_that_refuses_little_scores_far_lower(quickstart: tuple[str, Path], tmp_path: Path) -> None:
    model = models.find("smollm2-135m")
    command = [str(BIN / "lm_eval"), "--model", "hf", "--tasks", "overbench_hard"]
    command += ["--model_args", models.model_args(model, models.fetch(model))]
    command += ["--apply_chat_template", "--limit", "40", "--batch_size", "20", "--device", "cpu"]
    run([*command, "--log_samples", "--output_path", str(tmp_path)])
    assert osr(verdicts(tmp_path)) < 0.5 * osr(verdicts(quickstart[1]))
