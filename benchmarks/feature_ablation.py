"""Does attribution earn its place? The same seeds, adversary and gates, with features found in three ways.

    python benchmarks/feature_ablation.py RUN --jobs 100

RUN is the folder of a finished ``overbench refresh`` whose target, adversary and judges can be reached. For
each way its labelled seeds and first detector are taken over, one feature is drawn per seed, and the target
is asked everything that passed the gates without a model, so that the share it refuses can be given before
and after the detector's gate. Killed, it goes on where it was.

    attributed   Integrated Gradients over word frequency (Pu et al. 2025, equation of AdjIG)
    raw          Integrated Gradients alone (beta = 0)
    random       a word drawn from the same prompt
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statsmodels.stats.proportion import proportions_ztest

from generators.refresh.loop import refresh
from generators.refresh.refresh_settings import RefreshSettings
from generators.refresh.run import Run, settings_of
from generators.refresh.run_file import RUN_FILE
from generators.refresh.store import Store
from generators.settings import merge
from overbench.commands.refresh_commands import Bars

WAYS: dict[str, dict[str, Any]] = {
    "attributed": {},
    "raw": {"attribution": {"beta": 0.0}},
    "random": {"rounds": {"words": "random"}},
}
Share = tuple[int, int]
"""(prompts that the target refused, prompts that it was asked)."""


def settings_for(base: RefreshSettings, way: str, jobs: int) -> RefreshSettings:
    plain = {"rounds": 1, "jobs": jobs, "grow": False, "explore": 1.0, "examples": 0}
    changed = merge(base.model_dump(mode="json"), {"rounds": plain, "attribution": {"top_k": 1}})
    return RefreshSettings.model_validate(merge(changed, WAYS[way]))


def take_over(source: Path, folder: Path, settings: RefreshSettings) -> None:
    """Begin a run with the labelled seeds and the first detector of another."""
    if (folder / RUN_FILE).exists():
        return
    Store(folder).__exit__(None, None, None)
    shutil.copytree(source / "detector" / "round-1", folder / "detector" / "round-1", dirs_exist_ok=True)
    connection = sqlite3.connect(folder / RUN_FILE)
    connection.execute("ATTACH ? AS source", [str(source / RUN_FILE)])
    for table in ("prompts", "answers", "labels", "facts", "finished"):
        connection.execute(f"INSERT INTO {table} SELECT * FROM source.{table}")
    connection.execute("DELETE FROM prompts WHERE round > 0")
    connection.execute("DELETE FROM finished WHERE round > 1 OR stage NOT IN ('seeds', 'label', 'train')")
    used = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
    connection.execute("UPDATE facts SET value = ? WHERE key = 'settings'", [used])
    connection.commit()
    connection.close()


def shares(run: Run) -> Iterator[Share]:
    """Of all new prompts that passed the gates without a model; of those that passed all gates."""
    labels = run.store.labels(run.reply_key)
    for splits in (("accepted", "explored"), ("accepted",)):
        refusals = [labels[prompt.id] == "refused" for prompt in run.store.prompts(*splits)]
        yield sum(refusals), len(refusals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--jobs", type=int, default=100)
    arguments = parser.parse_args()
    base = settings_of(arguments.run)
    # What these runs export is no task data.
    os.environ["OVERBENCH_HOME"] = str((arguments.run / "ablation" / "home").resolve())
    shares_of_ways: dict[str, list[Share]] = {}
    for way in WAYS:
        folder = arguments.run / "ablation" / way
        settings = settings_for(base, way, arguments.jobs)
        take_over(arguments.run, folder, settings)
        with Store(folder) as store:
            run = Run(settings, store, Bars())
            refresh(run, until="verify")
            shares_of_ways[way] = list(shares(run))
    print("| features | refused, of all new prompts | p | refused, of those that passed all gates | p |")
    print("| --- | --- | --- | --- | --- |")
    for way, of_way in shares_of_ways.items():
        row = [way]
        for (refused, total), (refused_first, asked_first) in zip(
            of_way, shares_of_ways["attributed"], strict=True
        ):
            # Two-sided two-proportion z-test with pooled variance.
            p = proportions_ztest([refused_first, refused], [asked_first, total])[1]
            row.append(f"{refused}/{total} = {refused / max(1, total):.1%}")
            row.append("" if way == "attributed" else f"{p:.3f}")
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
