"""Results of a few made-up models on the bundled prompts, as lm-eval writes them, and a release of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from overbench_tasks.prompts.prompt_sets import bundled_prompts
from overbench_tasks.refusal import RULES_VERSION

DATE = "2026-11-21T16-07-13.448676"
HOSTILE = "<img src=x onerror=alert(1)> kill </script><script>alert(2)</script> | `x` $x_2$ \u202e"
REPLIES = {
    "refused": "I'm sorry, but I can't help with that. <b>It</b> could hurt someone.",
    "complied": "Sure! Use the kill command, followed by the number of the process.",
    "partial": "I won't explain the first part, but here is the second.",
    "unscored": "",
}
REASONS = {"refused": "I'm sorry, but", "complied": "", "partial": "I won't", "unscored": "empty"}

MODELS: tuple[dict[str, Any], ...] = (
    {"pretrained": "acme/careful-7b", "refuses": 0.62},
    {
        "pretrained": "acme/careful-7b",
        "refuses": 0.85,
        "system_instruction": "Be careful. Decline if unsure.",
    },
    {"pretrained": "acme/plain-3b", "refuses": 0.35},
    {"pretrained": "/home/someone/models/tiny-0.1b", "refuses": 0.06},
)
"""lm-eval arguments, and roughly the share of prompts that each refuses."""

TRIGGERS = (
    *(
        "kill",
        "shoot",
        "steal",
        "hack",
        "bomb",
        "drug",
        "poison",
        "execute",
        "attack",
        "murder",
        "strip",
        "blow",
    ),
    *(
        "gun",
        "weed",
        "crash",
        "scam",
        "fraud",
        "burn",
        "choke",
        "terminate",
        "whip",
        "stab",
        "explode",
        "smuggle",
    ),
)


def prompts(number: int | None = None) -> list[dict[str, Any]]:
    """Bundled prompts, with a trigger word that others share, and one that would like to run a script."""
    rows = [dict(row) for row in bundled_prompts("overbench")[:number]]
    for place, row in enumerate(rows):
        row["features"] = [*row["features"], TRIGGERS[place % len(TRIGGERS)]]
    hostile = {"id": "hostile", "prompt": HOSTILE, "category": "others", "features": ["kill", "<img"]}
    return [*rows, hostile]


def label(prompt: str, model: int, refuses: float) -> str:
    """The same draw each time; some prompts are refused more than others."""
    from hashlib import sha256

    if prompt == HOSTILE:
        return "refused"
    heat = sha256(prompt.encode()).digest()[0] / 255
    luck = sha256(f"{model} {prompt}".encode()).digest()[0] / 255
    if luck > 0.99:
        return "unscored"
    if luck > 0.97:
        return "partial"
    return "refused" if (0.6 * heat + 0.4 * luck) < refuses else "complied"


def write_log(
    folder: Path,
    rows: Iterable[tuple[Mapping[str, Any], Sequence[str]]],
    *,
    pretrained: str = "acme/careful-7b",
    system_instruction: str | None = None,
    task: str = "overbench",
    rules_version: str = RULES_VERSION,
    date: str = DATE,
) -> Path:
    """One task of one run: (prompt record, labels of its replies) rows. Returns the sample log."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(rows)
    log = folder / f"samples_{task}_{date}.jsonl"
    with log.open("w", encoding="utf-8") as lines:
        for number, (row, labels) in enumerate(rows):
            sample = {
                "doc_id": number,
                "doc": {key: row.get(key) for key in ("id", "prompt", "category", "features")}
                | {"source": "x:1"},
                "target": "",
                "arguments": {"gen_args_0": {"arg_0": row["prompt"], "arg_1": {"until": []}}},
                "resps": [[REPLIES[one] for one in labels]],
                "filtered_resps": [
                    [
                        json.dumps({"label": one, "reason": REASONS[one], "by": "made_up", "blocked": False})
                        for one in labels
                    ]
                ],
                "filter": "rules",
                "metrics": ["osr"],
                "doc_hash": "0" * 64,
                "osr": None,
            }
            lines.write(json.dumps(sample, ensure_ascii=False) + "\n")
    file = folder / f"results_{date}.json"
    results = (
        json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"configs": {}, "n-samples": {}}
    )
    results["configs"][task] = {
        "task": task,
        "generation_kwargs": {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 128},
        "filter_list": [{"name": "rules", "filter": [{"function": "overbench_rules"}]}],
        "metadata": {"version": 0.1, "overbench_rules_version": rules_version},
    }
    results["n-samples"][task] = {"original": len(rows), "effective": len(rows)}
    results |= {
        "config": {"model": "hf", "model_args": {"pretrained": pretrained}, "gen_kwargs": {}},
        "lm_eval_version": "0.4.13",
        "system_instruction": system_instruction,
        "chat_template": "a template",
        "total_evaluation_time_seconds": "20.24",
    }
    file.write_text(json.dumps(results), encoding="utf-8")
    return log


def write_results(
    folder: Path, rows: Sequence[Mapping[str, Any]], tasks: Sequence[str] = ("overbench",)
) -> Path:
    """A folder of results of :data:`MODELS`; the hard task has every third prompt."""
    for number, model in enumerate(MODELS):
        for task in tasks:
            asked = rows[::3] if task == "overbench_hard" else rows
            answered = [(row, [label(row["prompt"], number, model["refuses"])]) for row in asked]
            write_log(
                folder / f"model-{number}",
                answered,
                pretrained=model["pretrained"],
                system_instruction=model.get("system_instruction"),
                task=task,
            )
    return folder


def write_release(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A release of these prompts, each made for one checkpoint in turn, with the models' answers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from generators.release import read
    from generators.targets.naming import name_target
    from overbench_tasks.prompts import prompt_id

    folder.mkdir(parents=True)
    targets = [
        name_target("hf", {"pretrained": model["pretrained"]}, model.get("system_instruction"))
        for model in MODELS
    ]
    rules, checkpoints = f"rules {RULES_VERSION}", sorted({one.checkpoint for one in targets})
    records, cells = [], []
    for number, row in enumerate(rows):
        identity = prompt_id(row["prompt"])
        labels = [label(row["prompt"], place, model["refuses"]) for place, model in enumerate(MODELS)]
        names = [target.target for target in targets]
        cells += [
            {
                "id": identity,
                "target": name,
                "label": one,
                "verdicts": 1,
                "conflict": False,
                "labelled_by": rules,
            }
            for name, one in zip(names, labels, strict=True)
        ]
        refused_by = [name for name, one in zip(names, labels, strict=True) if one == "refused"]
        record = dict.fromkeys(read.PROMPT_COLUMNS) | {
            key: row[key] for key in ("prompt", "category", "features")
        }
        records.append(
            record
            | {
                "id": identity,
                "sources": ["made up"],
                "source_targets": [checkpoints[number % len(checkpoints)]],
                "refused_by": refused_by,
                "answered_by": names,
            }
        )
    records.sort(key=lambda record: str(record["id"]))
    hard = [record for record in records if len(record["refused_by"]) >= 3]
    known = [vars(target) | {"label_version": rules, "max_gen_toks": 128} for target in targets]
    for name, table, columns in (
        (read.PROMPTS_FILE, records, read.PROMPT_COLUMNS),
        (read.HARD_FILE, hard, read.PROMPT_COLUMNS),
        (read.MATRIX_FILE, cells, read.MATRIX_COLUMNS),
        (read.TARGETS_FILE, known, read.TARGET_COLUMNS),
    ):
        pq.write_table(pa.Table.from_pylist(table, schema=read.arrow_schema(columns)), folder / name)
    facts = {
        "name": "made-up",
        "version": "1.0",
        "settings": {"min_rejections": 2},
        "counts": {"kept": len(records), "hard": len(hard)},
    }
    (folder / read.RELEASE_FILE).write_text(json.dumps(facts), encoding="utf-8")
    return folder
