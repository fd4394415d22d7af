"""What models do about the scenarios of ``overbench_agent``.

    python benchmarks/agents_real.py                    # the tables of the documentation
    python benchmarks/agents_real.py --measured FOLDER  # read anew from lm-eval's outputs, and kept

FOLDER holds a folder per model, by the model's name: lm_eval's ``--output_path`` of a run of
``overbench_agent`` with ``--log_samples``. What is kept in ``data/agent_outcomes.csv.gz`` are ids and
outcomes, no prompts and no replies. A run on a part of the scenarios (``--samples``) gives figures of that
part. ``data/agent_readings.csv.gz`` holds what three blind readers said of each scenario.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from shared import write_csv

from overbench_tasks.agents.agent_metrics import agent_metrics
from overbench_tasks.agents.agent_task import SCENARIOS_FILE, scenario_rows
from overbench_tasks.metrics import Rate
from overbench_tasks.metrics.pair_rates import pairs_separated
from overbench_tasks.metrics.refusal_rates import rate_of
from overbench_tasks.outcomes.logs import sample_logs
from overbench_tasks.records import ACTION_OUTCOMES, ActionOutcome
from overbench_tasks.tables import read_table

KEPT = Path(__file__).parent / "data" / "agent_outcomes.csv.gz"
READINGS = KEPT.with_name("agent_readings.csv.gz")
READERS = ("1", "2", "3")
RATES = {"held_rate": "held", "acted_rate": "acted", "overreach_rate": "overreach"}
COLUMNS = ("model", "id", "pair_id", "prompt_label", "outcome")


def measured(folder: Path) -> Iterator[dict[str, str]]:
    """A row of :data:`COLUMNS` per scenario and model."""
    for model in sorted(path for path in folder.iterdir() if path.is_dir()):
        for _, sample in read_table(sample_logs(model)[-1]):
            [[text]] = sample["filtered_resps"]
            doc = sample["doc"]
            yield {
                "model": model.name,
                "id": doc["id"],
                "pair_id": doc.get("pair_id") or "",
                "prompt_label": doc["prompt_label"],
                "outcome": json.loads(text)["outcome"],
            }


def by_model(rows: Iterable[Mapping[str, str]]) -> dict[str, list[Mapping[str, str]]]:
    """The rows of each model."""
    models: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        models[row["model"]].append(row)
    return models


def table(models: Mapping[str, Sequence[Mapping[str, str]]]) -> Iterator[str]:
    """The lines of a Markdown table, a model per row."""
    columns = [
        "scenarios",
        *(f"{name}, %" for name in RATES.values()),
        "pairs separated, %",
        *ACTION_OUTCOMES,
    ]
    yield f"| model | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for model, rows in models.items():
        counts = Counter(row["outcome"] for row in rows)
        metrics = [_metrics(row) for row in rows]
        rates = [rate_of(scenario[name] for scenario in metrics) for name in RATES]
        separated = 100 * pairs_separated(scenario["pairs_separated"] for scenario in metrics)
        cells = [str(len(rows)), *map(_shown, rates)]
        cells += ["–" if math.isnan(separated) else f"{separated:.1f}"]
        cells += [str(counts[name]) for name in ACTION_OUTCOMES]
        yield f"| {model} | {' | '.join(cells)} |"


def readings_table() -> Iterator[str]:
    """The lines of a Markdown table: what blind readers said of the scenarios."""
    sides = {row["id"]: row["prompt_label"] for row in scenario_rows(SCENARIOS_FILE)}
    readings = [row for _, row in read_table(READINGS)]
    yield "| scenarios | read | act | hold | unsure | natural, mean of 1 to 5 |"
    yield f"| --- |{' ---: |' * 5}"
    for side, name in (("safe", "cleared"), ("unsafe", "not cleared")):
        of_side = [row for row in readings if sides[row["id"]] == side]
        votes = Counter(row[f"vote_{reader}"] for row in of_side for reader in READERS)
        natural = mean(float(row[f"natural_{reader}"]) for row in of_side for reader in READERS)
        counts = " | ".join(str(votes[vote]) for vote in ("act", "hold", "unsure"))
        yield f"| {name} | {len(of_side)} x {len(READERS)} | {counts} | {natural:.2f} |"


def _shown(rate: Rate) -> str:
    if not rate.n:
        return "–"
    return f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def _metrics(row: Mapping[str, str]) -> dict[str, Any]:
    outcome: ActionOutcome = ACTION_OUTCOMES[ACTION_OUTCOMES.index(row["outcome"])]
    return agent_metrics([outcome], row["pair_id"], "unsafe" if row["prompt_label"] == "unsafe" else "safe")


def main() -> None:
    """Read what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path)
    options = parser.parse_args()
    kept = [{name: str(row[name] or "") for name in COLUMNS} for _, row in read_table(KEPT)]
    if options.measured:
        anew = list(measured(options.measured))
        models = {row["model"] for row in anew}
        kept = [*anew, *(row for row in kept if row["model"] not in models)]
        write_csv(KEPT, COLUMNS, kept)
    print("\n".join(table(by_model(kept))))
    print()
    print("\n".join(readings_table()))


if __name__ == "__main__":
    main()
