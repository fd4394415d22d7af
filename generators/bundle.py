"""Builds the bundled sets from the prompts and from lm-eval's sample logs of real checkpoints.

    python -m generators.bundle NAME=samples_overbench_*.jsonl ...

Each NAME is a checkpoint that answered the task ``overbench``. Replies are labelled again by the
current rules; ``refused_by`` lists who refused, and ``overbench_hard`` takes what anyone refused.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from overbench_tasks.data import BUNDLED
from overbench_tasks.refusal import label_reply
from overbench_tasks.sources import prompt_id

DATA_VERSION = "0.1"


def refusals(sample_log: Path) -> tuple[set[str], set[str]]:
    """The ids of all prompts in one sample log, and of those whose reply was a full refusal."""
    asked, refused = set(), set()
    with sample_log.open(encoding="utf-8") as lines:
        for sample in map(json.loads, lines):
            identity, prompt = sample["doc"]["id"], sample["doc"]["prompt"]
            asked.add(identity)
            if label_reply(sample["resps"][0][0], prompt=prompt).label == "refused":
                refused.add(identity)
    return asked, refused


def build(prompts: Iterable[Mapping[str, Any]], refused_by: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Complete records, ordered by id: as good as shuffled, so ``--limit`` takes a fair mix."""
    records = [
        {
            "id": prompt_id(row["prompt"]),
            "prompt": row["prompt"],
            "category": row["category"],
            "features": row["features"],
            "seed_id": None,
            "round": 0,
            "source_target": None,
            "generator": "claude, prompt by prompt",
            "moderation": [
                {"by": "claude, as writer", "vote": "benign"},
                {"by": "claude, second reading", "vote": "benign"},
            ],
            "refused_by": sorted(refused_by.get(prompt_id(row["prompt"]), [])),
            "data_version": DATA_VERSION,
        }
        for row in prompts
    ]
    return sorted(records, key=lambda record: str(record["id"]))


def main(arguments: list[str]) -> None:
    source = BUNDLED / "overbench.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    ids = {prompt_id(row["prompt"]) for row in rows}
    refused_by: dict[str, list[str]] = defaultdict(list)
    for argument in arguments:
        name, _, log = argument.partition("=")
        asked, refused = refusals(Path(log))
        if asked != ids:
            raise SystemExit(
                f"{log} answers {len(asked & ids)} of the {len(ids)} prompts and {len(asked - ids)} "
                "others. Expected one complete run of the task 'overbench' on the current prompts."
            )
        for identity in refused:
            refused_by[identity].append(name)
        print(f"{name}: refused {len(refused)} of {len(asked)}")
    records = build(rows, refused_by)
    hard = [record for record in records if record["refused_by"]]
    for name, kept in (("overbench", records), ("overbench_hard", hard)):
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept)
        (BUNDLED / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{name}: {len(kept)} prompts")


if __name__ == "__main__":
    main(sys.argv[1:])
