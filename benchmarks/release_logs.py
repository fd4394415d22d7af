"""What a release reads of lm-eval's logs, without what it does not: the machine, addresses, hashes.

    python benchmarks/release_logs.py OUTPUT_PATH benchmarks/data/release_v3/logs/NAME

``OUTPUT_PATH`` is what ``lm_eval --output_path`` wrote for one target. Of each row the prompt, the reply and
its label stay, and of the results what says how the target was asked. The time of a run does not stay: most
replies came from lm-eval's cache when the logs were written.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from overbench_tasks.tables import read_table

DOC: Final = ("id", "prompt", "messages", "prompt_label")
ROW: Final = ("doc_id", "resps", "filtered_resps", "filter")
RESULTS: Final = (
    "versions",
    "n-samples",
    "date",
    "lm_eval_version",
    "system_instruction",
    "chat_template",
)
TASK: Final = ("task", "generation_kwargs", "filter_list")
METADATA: Final = ("version", "overbench_rules_version", "overbench_source")


def trimmed_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a sample log."""
    doc = {name: row["doc"][name] for name in DOC if row["doc"].get(name) is not None}
    return {"doc": doc, **{name: row[name] for name in ROW}}


def trimmed_results(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results file beside it."""
    tasks = {}
    for name, task in results["configs"].items():
        metadata = {key: task["metadata"][key] for key in METADATA if key in task["metadata"]}
        if "overbench_source" in metadata:
            metadata["overbench_source"] = Path(metadata["overbench_source"]).name
        tasks[name] = {**{key: task[key] for key in TASK}, "metadata": metadata}
    config = results["config"]
    asked = {
        "model": config["model"],
        "model_args": {"model": config["model_args"]["model"]},
        "gen_kwargs": config["gen_kwargs"],
    }
    return {"configs": tasks, "config": asked, **{name: results.get(name) for name in RESULTS}}


def main() -> None:
    """Write the trimmed logs of one target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output_path", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(given.output_path.rglob("samples_*.jsonl")):
        lines = [json.dumps(trimmed_row(row), ensure_ascii=False) + "\n" for _, row in read_table(file)]
        with gzip.GzipFile(given.folder / f"{file.name}.gz", "wb", mtime=0) as packed:
            packed.write("".join(lines).encode())
    for file in sorted(given.output_path.rglob("results_*.json")):
        results = trimmed_results(json.loads(file.read_text(encoding="utf-8")))
        text = json.dumps(results, ensure_ascii=False, indent=1) + "\n"
        (given.folder / file.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
