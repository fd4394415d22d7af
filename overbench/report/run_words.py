"""Which words matter to a model, by the attributions of refresh runs, for the paper's figure 3.

A run attributes the prompts that it starts from: seeds that its target refuses, or that the run's detector
calls refused, and prompts of its own that the target refused. The words that attribution names in them are
ranked within each model, by how many of these prompts they are named in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generators.attribution.attribution import features
from generators.attribution.attribution_settings import AttributionSettings
from generators.refresh.store import Store
from overbench.release.release_inputs import PromptSource, run_settings_of
from overbench.report.stats.matrix import MISSING, ResponseMatrix

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class AttributedPrompt:
    """One prompt that a run attributed, and the words that it names, the best first."""

    target: str
    prompt_id: str
    words: tuple[str, ...]


def attributed_prompts(folder: Path, target: str) -> list[AttributedPrompt]:
    """The prompts that a run attributed, by their latest attribution, without those that the target is known
    to have answered.

    Args:
        folder: of the run.
        target: what its target is called here.

    Raises:
        OverbenchError: the run cannot be read.
    """
    told = run_settings_of(folder).get("attribution") or {}
    settings = AttributionSettings(
        **{name: value for name, value in told.items() if name in AttributionSettings.model_fields}
    )
    with Store(folder, read_only=True) as store:
        answered = store.answered_otherwise()
        found = [attribution for _, attribution in store.latest_attributions()]
    return [
        AttributedPrompt(target, one.prompt_id, tuple(features(one, settings)))
        for one in found
        if one.prompt_id not in answered
    ]


def attributed_matrix(runs: Sequence[PromptSource]) -> ResponseMatrix | None:
    """The attributed prompts of refresh runs as refusals of their targets; None where there are none.

    A prompt that several runs attributed is a row for each of their targets, since their words differ.
    """
    import numpy as np

    prompts = {
        (one.target, one.prompt_id): one
        for run in runs
        if run.target is not None and run.folder is not None
        for one in attributed_prompts(run.folder, run.target.target)
    }
    if not prompts:
        return None
    targets = tuple(sorted({target for target, _ in prompts}))
    values = np.full((len(prompts), len(targets)), MISSING, dtype=np.float64)
    for row, (target, _) in enumerate(prompts):
        values[row, targets.index(target)] = 1
    return ResponseMatrix(
        tuple(f"{target}\n{prompt_id}" for target, prompt_id in prompts),
        targets,
        values,
        tuple(frozenset({target}) for target, _ in prompts),
        (None,) * len(prompts),
        tuple(one.words for one in prompts.values()),
    )
