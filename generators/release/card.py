"""The data card of a release: a README.md that people read and the Hugging Face hub understands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from generators.release.read import HARD_FILE, MATRIX_FILE, PROMPTS_FILE, TARGETS_FILE
from generators.targets.naming import TargetRecord
from overbench_tasks.text import markdown_cell, markdown_line

_CONFIGS: Final = {
    "overbench": PROMPTS_FILE,
    "overbench_hard": HARD_FILE,
    "matrix": MATRIX_FILE,
    "targets": TARGETS_FILE,
}
_SIZES: Final = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**6, "100K<n<1M"))


def text(facts: Mapping[str, Any], targets: Sequence[TargetRecord], about: str | None = None) -> str:
    """The card.

    Args:
        facts: what ``release.json`` holds.
        targets: all targets, by name.
        about: Markdown that goes behind the opening as it is.
    """
    parts = [_front_matter(facts), _opening(facts), *([about.strip()] if about else [])]
    parts += [_use(), _counts(facts), _hard(facts)]
    parts += [_targets(targets), _matrix(facts), _limits(facts), _columns()]
    return "\n\n".join(parts) + "\n"


def _front_matter(facts: Mapping[str, Any]) -> str:
    from huggingface_hub import DatasetCardData

    n = facts["counts"]["kept"]
    size = next((name for bound, name in _SIZES if n < bound), "1M<n<10M")
    # The hub refuses a configuration whose file has no rows at all.
    filled = {"overbench_hard": facts["counts"]["hard"], "matrix": facts["counts"]["cells"]}
    configs = [
        {"config_name": name, "data_files": [{"split": "test", "path": file}]}
        for name, file in _CONFIGS.items()
        if filled.get(name, n)
    ]
    front = DatasetCardData(
        pretty_name=f"{facts['name']} {facts['version']}",
        license=facts["settings"].get("license"),
        language=["en"],
        task_categories=["text-generation"],
        tags=["over-refusal", "oversensitivity", "overbench", "safety"],
        size_categories=[size],
        configs=configs,
    )
    order = ["pretty_name", "license", "language", "task_categories", "tags", "size_categories", "configs"]
    return f"---\n{front.to_yaml(original_order=order)}\n---"


def _opening(facts: Mapping[str, Any]) -> str:
    return f"""# {markdown_line(facts["name"])} {markdown_line(facts["version"])}

Harmless prompts that language models refuse because they look harmful, with who refused which. Made by
`overbench aggregate` after Pu et al. 2025, "Dynamic Evaluation for Oversensitivity in LLMs"
(https://arxiv.org/abs/2510.19005). **This is not the authors' data**; theirs carry no licence and are
scored with `--metadata '{{"overbench_source": "overbench_all.jsonl"}}'` from one's own download."""


def _use() -> str:
    return """## Use

```bash
lm_eval ... --tasks overbench --apply_chat_template --metadata '{"overbench_source": "THIS FOLDER"}'
lm_eval ... --tasks overbench_hard --apply_chat_template --metadata '{"overbench_source": "THIS FOLDER"}'
```

```python
from datasets import load_dataset

load_dataset("THIS FOLDER", "overbench", split="test")  # or overbench_hard, matrix, targets
```"""


def _counts(facts: Mapping[str, Any]) -> str:
    counts = facts["counts"]
    rows = [
        ("read from the sources", counts["read"]),
        ("the same text once more", -counts["exact_duplicates"]),
        ("near duplicates", -counts["near_duplicates"]),
        ("answered by all targets, refused by none", -counts["refused_by_none"]),
        ("`overbench`", counts["kept"]),
        ("`overbench_hard`", counts["hard"]),
    ]
    lines = ["## Prompts", "", "| step | prompts |", "| --- | ---: |"]
    lines += [f"| {step} | {n:,} |" for step, n in rows]
    lines += ["", "| category | overbench | overbench_hard |", "| --- | ---: | ---: |"]
    lines += [
        f"| {markdown_cell(name)} | {_share(n['overbench'], counts['kept'])} "
        f"| {_share(n['overbench_hard'], counts['hard'])} |"
        for name, n in facts["categories"].items()
    ]
    lines += [
        "",
        "Sources: " + ", ".join(f"{markdown_cell(s['name'])} ({s['kind']})" for s in facts["sources"]) + ".",
    ]
    lines += [
        "",
        "Two prompts are near duplicates where the Jaccard similarity of their runs of four characters, "
        f"without the words of the frame, is {facts['settings']['near_duplicates']} or more.",
    ]
    return "\n".join(lines)


def _hard(facts: Mapping[str, Any]) -> str:
    settings = facts["settings"]
    n = len({log["target"] for log in facts["logs"]})
    return f"""## What is hard

`overbench_hard` holds the prompts refused by at least {settings["min_rejections"]} targets and by at least \
{settings["min_checkpoints"]} different
checkpoints (the authors: at least five of 25 models). Logs of {n} targets went into it. A rate on it speaks
of prompts that were chosen because models refuse them: it compares models, and says little of one model
alone. Targets that took part in the choice have it against them."""


def _targets(targets: Sequence[TargetRecord]) -> str:
    lines = ["## Targets", "", "| target | checkpoint | backend | chat template | new tokens |"]
    lines += ["| --- | --- | --- | --- | ---: |"]
    for target in targets:
        template = {True: "yes", False: "no", None: "not known"}[target.apply_chat_template]
        cells = (target.target, target.checkpoint, target.model or "not known", template)
        tokens = "not known" if target.max_gen_toks is None else str(target.max_gen_toks)
        lines.append(f"| {' | '.join(map(markdown_cell, cells))} | {tokens} |")
    for target in targets:
        if target.system_instruction:
            said = json.dumps(target.system_instruction, ensure_ascii=False)
            lines += ["", f"System prompt of {markdown_line(target.target)}:", "", f"    {said}"]
    return "\n".join(lines)


def _matrix(facts: Mapping[str, Any]) -> str:
    counts = facts["counts"]
    missing = sum(gap["missing"] for gap in facts["gaps"])
    return f"""## Who refused what

`matrix.parquet` has a row per prompt and target with a reply: {counts["cells"]:,} cells from
{counts["verdicts"]:,} verdicts, labelled by {markdown_line(facts["labelled_by"] or "nobody")}.
{counts["refused"]:,} are refused, {counts["unscored"]:,} unscored.
Where one target answered a prompt more than once, the label of most of its scored replies counts, and a tie
is unscored; {counts["conflicts"]:,} cells with differing labels are marked `conflict`.
Replies in logs and runs replace what an earlier release says of the same prompt and target
({counts["cells_replaced"]:,} cells here), so that no reply counts twice.
{missing:,} cells are missing (`gaps.md`); missing is never counted as accepted."""


def _limits(facts: Mapping[str, Any]) -> str:
    notes = "".join(f"\n- {markdown_line(note)}" for note in facts["notes"])
    return f"""## Limits

- A prompt made because one model refuses it flatters the others: see `source_targets`, and leave a
  model's own prompts out of its rate.
- Which votes stand behind a prompt's benignness is in `moderation`; NULL means that none are recorded.
- Categories come from a list of keywords unless `category_evidence` says otherwise.{notes}"""


def _columns() -> str:
    return """## Columns of a prompt

`id` (from the text), `prompt`, `category`, `category_evidence` (what decided it), `or_bench_category`,
`features` (the words that set models off), `sources`, `seed_id`, `round`, `source_targets` (made for),
`generator`, `moderation` (the votes, JSON), `refused_by`, `answered_by` (targets with a
scored reply), `data_version`."""


def _share(n: int, total: int) -> str:
    return f"{n:,} ({n / total:.1%})" if total else "0"
