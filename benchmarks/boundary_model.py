"""The predictor of :mod:`boundary_predictor`: the share of real models that refuse a prompt, from its text.

A frozen encoder (mean of the last layer, of length one) and a few plain features, ridge regression of
strength 1, which was not tuned; the weights are committed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overbench.diversity.similarity import embeddings
from overbench_tasks.prompts import prompt_id
from overbench_tasks.tables import whole_file

WEIGHTS = Path(__file__).resolve().parent / "data" / "boundary_predictor.json"
STRENGTH, PLAIN_WEIGHT = 1.0, 0.05

Floats = np.ndarray[Any, np.dtype[np.float64]]


def vectors(prompts: Sequence[str], encoder: str, folder: Path | None) -> Floats:
    """(prompts, width), each of length one; what was made once is kept in ``folder``."""
    file = folder / f"{encoder}.npz" if folder else None
    vectors_by_id: dict[str, Any] = {}
    if file and file.is_file():
        with np.load(file) as kept:
            vectors_by_id = dict(zip(kept["ids"].tolist(), kept["vectors"], strict=True))
    ids = [prompt_id(prompt) for prompt in prompts]
    missing = {key: prompt for key, prompt in zip(ids, prompts, strict=True) if key not in vectors_by_id}
    if missing:
        [made] = embeddings([list(missing.values())], encoder)
        vectors_by_id.update(zip(missing, made, strict=True))
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(file, ids=np.array(list(vectors_by_id)), vectors=np.stack(list(vectors_by_id.values())))
    return np.stack([vectors_by_id[key] for key in ids]).astype(np.float64)


def plain(prompt: str) -> list[float]:
    """What needs no encoder: length, form, whose affair it is."""
    words = prompt.split() or [""]
    folded = f" {prompt.casefold()} "
    return [
        np.log1p(len(words)),
        np.log1p(len(prompt)),
        float(prompt.rstrip().endswith("?")),
        float(any(letter.isdigit() for letter in prompt)),
        float(prompt.count(",")),
        float(np.mean([len(word) for word in words])),
        float(prompt[:1].isupper()),
        float(" i " in folded),
        float(" my " in folded),
    ]


@dataclass(frozen=True)
class Linear:
    """Weights of standardised plain features and, behind them, of an encoder's dimensions."""

    means: Floats
    spreads: Floats
    weights: Floats
    intercept: float

    def shares(self, prompts: Sequence[str], encoded: Floats) -> Floats:
        """(prompts,) predicted shares in [0, 1]."""
        return np.clip(
            _features(prompts, encoded, self.means, self.spreads) @ self.weights + self.intercept, 0, 1
        )


def _features(prompts: Sequence[str], encoded: Floats, means: Floats, spreads: Floats) -> Floats:
    standard = np.clip((np.array([plain(prompt) for prompt in prompts]) - means) / spreads, -3, 3)
    return np.hstack([PLAIN_WEIGHT * standard, encoded])


def fitted(prompts: Sequence[str], encoded: Floats, shares: Floats, models: Floats) -> Linear:
    """Each prompt weighs as many models as answered it."""
    from sklearn.linear_model import Ridge

    raw = np.array([plain(prompt) for prompt in prompts])
    means, spreads = raw.mean(0), raw.std(0) + 1e-9
    line = Ridge(STRENGTH).fit(
        _features(prompts, encoded, means, spreads), shares, sample_weight=models / models.mean()
    )
    return Linear(means, spreads, line.coef_, float(line.intercept_))


def save(line: Linear, encoder: str) -> None:
    """Write :data:`WEIGHTS`."""
    with whole_file(WEIGHTS) as file:
        saved = {name: np.round(getattr(line, name), 5).tolist() for name in ("means", "spreads", "weights")}
        json.dump({"encoder": encoder, "intercept": round(line.intercept, 5), **saved}, file)
        file.write("\n")


def predict(prompts: Sequence[str], folder: Path | None = None) -> list[float]:
    """The predicted share, in [0, 1], of the models learnt from that refuse each prompt."""
    saved = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    arrays = (np.array(saved[name]) for name in ("means", "spreads", "weights"))
    line = Linear(*arrays, intercept=saved["intercept"])
    return [float(share) for share in line.shares(prompts, vectors(prompts, saved["encoder"], folder))]
