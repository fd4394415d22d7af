"""Integrated Gradients of a detector's refusal log-odds, per token, many prompts at a time.

Sundararajan, Taly & Yan 2017, "Axiomatic Attribution for Deep Networks" (arXiv 1703.01365), through
captum's LayerIntegratedGradients over the output of the input embedding layer. For prompt x, baseline
x' and F the log-odds:

    IG_i = sum over dimensions d of (x_id - x'_id) * integral over a in [0, 1] of dF(x' + a (x - x')) / dx_id

The baseline x' is the same sequence with every token of the prompt replaced by the pad (or mask) token;
special tokens, positions and the attention mask stay as they are. So special tokens get exactly 0.
F(x') is evaluated at that very end of the path: models that derive positions from token ids (RoBERTa)
would place a sequence of pad tokens elsewhere, and completeness, sum_i IG_i = F(x) - F(x'), would fail.

The log-odds of an encoder change in one steep place not far from the middle of the path, where captum's
default, Gauss-Legendre, has the fewest points. So we choose the points (see :func:`_points`) and let captum
take, for each, one step over the piece of the path around it: its layer is the place on the path, and its
inputs and baselines are the ends of the piece. A finer sum keeps the coarser one: with M_n the midpoint rule
of n points and T_n the trapezoid rule of n intervals, T_2n = (T_n + M_n) / 2. Each doubling only pays for
the points in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generators.attribution.tokens import AttributionError, BaselineToken, Encoded, encode

Array = npt.NDArray[np.float64]

REFUSED = "refused"
"""The detector's label for refused prompts, in its configuration's ``id2label``."""

CPU_TOKENS, ACCELERATOR_TOKENS = 1024, 16_384
_BEND, _SHIFT = 0.35, 0.1
"""Points lie 35 % closer than on average at 0.37 of the path, where most prompts' log-odds are steepest."""


class IntegrationSettings(BaseModel):
    """How the integral is approximated. The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(12, ge=2, description="points along the path that every prompt gets first")
    max_steps: int = Field(
        192, ge=2, description="a prompt above tolerance gets twice the points, again and again, up to these"
    )
    tolerance: float = Field(
        0.02,
        gt=0,
        lt=1,
        description="highest |sum of scores - (F(x) - F(baseline))|, as a share of |F(x) - F(baseline)|",
    )
    difference_floor: float = Field(
        0.1,
        ge=0,
        description="the tolerance is a share of at least this many log-odds, "
        "so that a prompt that hardly differs from its baseline is not integrated without end",
    )
    baseline: BaselineToken = Field(
        "pad",
        description="token that stands for an absent word; mask where an encoder's pad token is the zero "
        "vector and normalised at once, so that the log-odds leap at the start of the path",
    )
    max_length: int | None = Field(
        None,
        ge=3,
        description="tokens per prompt, special ones included; unset: as many as the detector takes",
    )
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="tokens in one pass, all prompts, points and padding counted; memory grows with it; "
        f"unset: {CPU_TOKENS:,} on a CPU, where more gain nothing, else {ACCELERATOR_TOKENS:,}",
    )

    @model_validator(mode="after")
    def _ordered(self) -> IntegrationSettings:
        if self.max_steps < self.steps:
            raise ValueError(f"max_steps must be at least steps ({self.steps}), but is {self.max_steps}")
        return self


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What each token of one prompt adds to the log-odds.

    Attributes:
        log_odds, baseline_log_odds: F(x) and F(x').
        delta: sum of scores - (F(x) - F(x')), in log-odds.
        steps: points that gave these scores (one more, the far end, if ``steps`` was raised).
        converged: whether ``delta`` is within tolerance.
        truncated: whether the detector reads only part of the prompt.
        offsets: ``[start, end)`` of each token in the prompt, in code points; (0, 0) for special tokens.
        scores: one per token, in log-odds.
    """

    log_odds: float
    baseline_log_odds: float
    delta: float
    steps: int
    converged: bool
    truncated: bool
    offsets: tuple[tuple[int, int], ...]
    scores: tuple[float, ...]


def integrate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    settings: IntegrationSettings,
    progress: Callable[[int], None] | None = None,
) -> list[TokenScores]:
    """Attribute each prompt's refusal log-odds to its tokens.

    Prompts of like length share a batch. Each first gets ``settings.steps`` points; those whose delta
    is above tolerance go on with twice as many, as long as these are at most ``settings.max_steps``.
    A prompt's scores do not depend on the order of ``prompts``; on which others share its batch they
    depend by float rounding only (about 1e-6).

    Args:
        model: a sequence classifier of transformers with one label, the log-odds themselves, or two, of
            which the one named "refused" (or else the second) is refusal. Stays on its device; its
            parameters' ``requires_grad`` and its modules' training modes are as before afterwards.
        tokenizer: its fast tokenizer.
        prompts: without surrogate code points.
        progress: called with the number of prompts newly finished.

    Returns:
        One per prompt, in the order of ``prompts``.

    Raises:
        AttributionError: the tokenizer has no offsets or lacks the baseline's token, the model has
            other labels, no input embeddings, or gives numbers that are not finite.
    """
    encoded = encode(model, tokenizer, prompts, settings.baseline, settings.max_length)
    found: dict[int, TokenScores] = {}
    # By content, not by place, within a length: the batches are the same for any order of prompts.
    pending = sorted(range(len(encoded)), key=lambda i: (encoded[i].length, encoded[i].inputs["input_ids"]))
    with _frozen(model):
        integrator = _Integrator(model, tokenizer, settings)
        for number, (places, weights) in enumerate(rounds := _points(settings)):
            missed: list[int] = []
            for batch in _batches(pending, encoded, integrator.batch_tokens // len(places)):
                coarser = [found[i] for i in batch] if number else None
                scored = integrator.scores([encoded[i] for i in batch], places, weights, coarser)
                found.update(zip(batch, scored, strict=True))
                above = [i for i in batch if not found[i].converged and number + 1 < len(rounds)]
                missed += above
                if progress is not None:
                    progress(len(batch) - len(above))
            pending = missed
    return [found[i] for i in range(len(encoded))]


def _points(settings: IntegrationSettings) -> list[tuple[Array, Array]]:
    """Places on the path, in [0, 1], and their weights, of sum 1, that each round adds: M_n, T_n, M_2n, M_4n.

    The points are equally spaced in u. Their places a(u) = u + b (sin(2 pi (u + c)) - sin(2 pi c)) / (2 pi)
    are closest around u = 1/2 - c; their weights are a'(u) times those of the rule.
    """
    n = settings.steps
    rounds = [((np.arange(n) + 0.5) / n, np.full(n, 1 / n))]
    while 2 * n <= settings.max_steps:
        if len(rounds) == 1:
            weights = np.full(n + 1, 1 / n)
            weights[[0, -1]] /= 2
            rounds.append((np.arange(n + 1) / n, weights))
        else:
            rounds.append(((np.arange(n) + 0.5) / n, np.full(n, 1 / n)))
        n *= 2
    turn = 2 * np.pi
    return [
        (
            u + _BEND * (np.sin(turn * (u + _SHIFT)) - np.sin(turn * _SHIFT)) / turn,
            weights * (1 + _BEND * np.cos(turn * (u + _SHIFT))),
        )
        for u, weights in rounds
    ]


class _Integrator:
    """captum around one model."""

    def __init__(self, model: Any, tokenizer: Any, settings: IntegrationSettings) -> None:
        from captum.attr import LayerIntegratedGradients
        from torch import nn

        self.model, self.settings = model, settings
        self.pad_id = tokenizer.pad_token_id
        self.refused = _refused_label(model)
        try:
            self.layer = model.get_input_embeddings()
        except NotImplementedError as error:
            raise AttributionError(
                f"{type(model).__name__} has no input embeddings to attribute to. Train an encoder that has."
            ) from error
        self.place = nn.Identity()
        self.captum = LayerIntegratedGradients(self._on_path, self.place)
        default = CPU_TOKENS if model.device.type == "cpu" else ACCELERATOR_TOKENS
        self.batch_tokens = settings.batch_tokens or default

    def scores(
        self,
        batch: Sequence[Encoded],
        places: Array,
        weights: Array,
        coarser: Sequence[TokenScores] | None,
    ) -> list[TokenScores]:
        """Token scores of a batch from these points, averaged with those of the round before, if any."""
        import torch

        ids, baseline, *others = self._tensors(batch)
        inputs = {"input_ids": ids, **dict(zip(list(batch[0].inputs)[1:], others, strict=True))}
        with torch.no_grad():
            start, end = self.layer(baseline), self.layer(ids)  # (prompts, tokens, dimensions)
        if coarser is None:
            ends = self._ends(inputs, start, end)
        else:
            ends = [(one.log_odds, one.baseline_log_odds) for one in coarser]
        sums = torch.zeros(ids.shape, dtype=torch.float64, device=ids.device)
        at_once = max(1, self.batch_tokens // ids.numel())
        for first in range(0, len(places), at_once):
            chosen = slice(first, first + at_once)
            sums += self._pieces(inputs, start, end, places[chosen], weights[chosen])
        found: list[TokenScores] = []
        for i, one in enumerate(batch):
            scores, steps = sums[i, : one.length].tolist(), len(places)
            if coarser is not None:
                scores = [(a + b) / 2 for a, b in zip(scores, coarser[i].scores, strict=True)]
                steps = 2 * coarser[i].steps
            found.append(self._token_scores(one, scores, ends[i], steps))
        return found

    def _pieces(self, inputs: dict[str, Any], start: Any, end: Any, places: Array, weights: Array) -> Any:
        """Token scores (prompts, tokens) from the pieces of the path around these places, in one pass."""
        import torch

        prompts, points = len(start), len(places)
        # One row for each point of each prompt.
        middle = torch.tensor(places, dtype=start.dtype, device=start.device).repeat_interleave(prompts)
        half = torch.tensor(weights / 2, dtype=start.dtype, device=start.device).repeat_interleave(prompts)
        rows = [value.repeat(points, *[1] * (value.ndim - 1)) for value in (start, end, *inputs.values())]
        pieces = self.captum.attribute(
            middle + half,
            baselines=middle - half,
            additional_forward_args=(list(inputs), *rows),
            n_steps=1,
            method="gausslegendre",  # of one step: the gradient in the middle of the piece
        )
        return pieces.sum(dim=-1).double().view(points, prompts, -1).sum(dim=0)

    def _token_scores(
        self, encoded: Encoded, scores: list[float], ends: tuple[float, float], steps: int
    ) -> TokenScores:
        difference = ends[0] - ends[1]
        delta = sum(scores) - difference
        allowed = self.settings.tolerance * max(abs(difference), self.settings.difference_floor)
        return TokenScores(
            *ends, delta, steps, abs(delta) <= allowed, encoded.truncated, encoded.offsets, tuple(scores)
        )

    def _ends(self, inputs: dict[str, Any], start: Any, end: Any) -> list[tuple[float, float]]:
        """F(x) and F(x') of each prompt."""
        import torch

        twice = {name: value.repeat(2, 1) for name, value in inputs.items()}
        with torch.no_grad(), self._embedded_as(torch.cat([end, start])):
            log_odds = self._log_odds(twice)
        if not log_odds.isfinite().all():
            raise AttributionError(
                "The detector's logits are not finite numbers. Load it in float32, or train it again."
            )
        at_input, at_baseline = log_odds.view(2, -1).tolist()
        return list(zip(at_input, at_baseline, strict=True))

    def _on_path(self, place: Any, names: list[str], start: Any, end: Any, *values: Any) -> Any:
        """F at places (rows,) on the path from start to end (rows, tokens, dimensions)."""
        import torch

        embedded = self.place(start + place[:, None, None] * (end - start))
        if not torch.is_grad_enabled():
            return place  # captum asks only for the output of its layer
        with self._embedded_as(embedded):
            return self._log_odds(dict(zip(names, values, strict=True)))

    def _log_odds(self, inputs: dict[str, Any]) -> Any:
        """F: (rows,) log-odds of refusal."""
        logits = self.model(**inputs).logits
        if self.refused is None:
            return logits[:, 0]
        return logits[:, self.refused] - logits[:, 1 - self.refused]

    @contextmanager
    def _embedded_as(self, embedded: Any) -> Iterator[None]:
        """The embedding layer gives ``embedded``, whatever the token ids."""
        hook = self.layer.register_forward_hook(lambda *_: embedded)
        try:
            yield
        finally:
            hook.remove()

    def _tensors(self, batch: Sequence[Encoded]) -> list[Any]:
        """Token ids, baseline ids and the model's other inputs, each (prompts, tokens), padded right."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        first, *others = batch[0].inputs
        columns = [
            ([one.inputs[first] for one in batch], self.pad_id),
            ([one.baseline for one in batch], self.pad_id),
            *(([one.inputs[name] for one in batch], 0) for name in others),
        ]
        return [
            pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value).to(
                self.model.device
            )
            for rows, value in columns
        ]


def _refused_label(model: Any) -> int | None:
    """The index of the refusal logit; None where the only logit is the log-odds."""
    labels = {int(index): str(label) for index, label in model.config.id2label.items()}
    if len(labels) == 1:
        return None
    if len(labels) != 2:
        raise AttributionError(
            f"The detector has {len(labels)} labels ({', '.join(labels.values())}), but needs one or two. "
            "Use a detector that `overbench train` made."
        )
    return next((i for i, label in labels.items() if label.casefold() == REFUSED), 1)


def _batches(order: Sequence[int], encoded: Sequence[Encoded], room: int) -> Iterator[list[int]]:
    """Runs of ``order`` (shortest first) that fill ``room`` tokens, padding counted; at least one prompt."""
    batch: list[int] = []
    for i in order:
        if batch and encoded[i].length * (len(batch) + 1) > room:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


@contextmanager
def _frozen(model: Any) -> Iterator[None]:
    """The model in evaluation mode and without gradients of parameters; afterwards as it was."""
    training = [(module, module.training) for module in model.modules()]
    needing = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval()
    for parameter in needing:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in needing:
            parameter.requires_grad_(True)
        for module, mode in training:
            module.training = mode
