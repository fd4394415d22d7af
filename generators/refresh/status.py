"""``overbench status``: where a run stands, from its rows alone; also while it is at work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from generators.refresh.loop import summary_line
from generators.refresh.store import Store

if TYPE_CHECKING:
    from generators.attribution.attribution import Attribution

TOP_FEATURES = 20


def status_lines(folder: Path) -> list[str]:
    """Counts per stage and rejection reason, the detector by round, the most used features.

    Raises:
        StoreError: there is no run in ``folder``.
    """
    with Store(folder, read_only=True) as store:
        return [
            *_stage_lines(store),
            *_progress_lines(store),
            *_rejection_lines(store),
            *_detector_lines(store),
            *_feature_lines(store),
        ]


def _finished(store: Store, stage: str | None = None) -> list[tuple[int, str, dict[str, object]]]:
    order = {"seeds": 0, "label": 1, "train": 2, "attribute": 3, "generate": 4, "verify": 5}
    rows = store.rows("SELECT round, stage, summary FROM finished")
    found = [(row["round"], row["stage"], json.loads(row["summary"])) for row in rows]
    chosen = [one for one in found if stage in (None, one[1])]
    return sorted(chosen, key=lambda one: (one[0], order.get(one[1], 9)))


def _stage_lines(store: Store) -> list[str]:
    lines = [
        summary_line(number, stage, {k: v for k, v in summary.items() if k != "rejected"})
        for number, stage, summary in _finished(store)
        if stage != "train"
    ]
    return ["Finished stages", *(f"  {line}" for line in lines or ["none yet"])]


def _progress_lines(store: Store) -> list[str]:
    names = {
        "prompts answered by the target": "SELECT COUNT(*) FROM answers",
        "requests answered by the adversary": "SELECT COUNT(*) FROM written",
        "candidates": "SELECT COUNT(*) FROM candidates",
        "accepted": "SELECT COUNT(*) FROM prompts WHERE part = 'accepted'",
    }
    return ["So far", *(f"  {name}: {store.value(query):,}" for name, query in names.items())]


def _rejection_lines(store: Store) -> list[str]:
    query = """
        SELECT gate, reason, COUNT(*) AS n FROM candidates WHERE gate != ''
        GROUP BY gate, reason ORDER BY n DESC, gate, reason"""
    return [
        "Turned away",
        *(f"  {row['n']:>6,}  {row['gate']}: {row['reason']}" for row in store.rows(query)),
    ]


def _detector_lines(store: Store) -> list[str]:
    from generators.detector.detector_report import DetectorReport

    lines = ["Detector by round, on the same test prompts"]
    for number, _, report in _finished(store, "train"):
        test = DetectorReport.model_validate(report).test
        seeds = test.get("seeds", test["all"])
        lines.append(
            f"  round {number}: AUROC {seeds.detector.auroc}, TF-IDF baseline {seeds.baseline.auroc}"
        )
    return lines


def _feature_lines(store: Store) -> list[str]:
    query = """
        SELECT feature, COUNT(*) AS uses FROM prompts WHERE part = 'accepted'
        GROUP BY feature ORDER BY uses DESC, feature LIMIT ?"""
    words = [f"{row['feature']} {row['uses']}" for row in store.rows(query, [TOP_FEATURES])]
    return ["Most used features", f"  {', '.join(words)}"] if words else []


def attributed_prompts(folder: Path) -> list[tuple[str, Attribution]]:
    """All attributed prompts of a run with their latest attribution, the likeliest refusals first.

    Raises:
        StoreError: there is no run in ``folder``.
    """
    from generators.attribution.attribution import from_json

    query = """
        SELECT prompt, attribution, MAX(attributions.round) FROM attributions
        JOIN prompts ON prompts.id = prompt_id GROUP BY prompt_id ORDER BY prompt_id"""
    with Store(folder, read_only=True) as store:
        found = [(row["prompt"], from_json(json.loads(row["attribution"]))) for row in store.rows(query)]
    return sorted(found, key=lambda item: -item[1].log_odds)
