"""Integrated Gradients of a detector's refusal log-odds, per token, many prompts at a time.

Sundararajan, Taly & Yan 2017, "Axiomatic Attribution for Deep Networks" (arXiv 1703.01365), through
captum's LayerIntegratedGradients over the output of the input embedding layer. For prompt x, baseline
x' and F the log-odds:

    IG_i = sum over dimensions d of (x_id - x'_id) * integral over a in [0, 1] of dF(x' + a (x - x')) / dx_id

The baseline x' is the same sequence with every token of the prompt replaced by the pad (or mask) token;
special tokens, positions and the attention mask stay as they are. So special tokens get exactly 0.
F(x') is evaluated at that very end of the path: models that derive positions from token ids (RoBERTa)
would place a sequence of pad tokens elsewhere, and completeness, sum_i IG_i = F(x) - F(x'), would fail.

The integral is a sum over equally spaced points, not captum's default, Gauss-Legendre: the log-odds of an
encoder change in one steep place near the middle of the path, where Gauss-Legendre has the fewest points
and needs half as many again. And a finer sum keeps the coarser one: with M_n the midpoint rule of n points
and T_n the trapezoid rule of n intervals, T_2n = (T_n + M_n) / 2, so each doubling only pays for new points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from generators.attribution_tokens import AttributionError, BaselineToken, Encoded, encode

Rule = Literal["riemann_middle", "riemann_trapezoid"]
REFUSED = "refused"
"""The detector's label for refused prompts, in its configuration's ``id2label``."""

CPU_TOKENS, ACCELERATOR_TOKENS = 1024, 16_384


class IntegrationSettings(BaseModel):
    """How the integral is approximated. The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(14, ge=2, description="points along the path that every prompt gets first")
    max_steps: int = Field(
        224, ge=2, description="a prompt above tolerance gets twice the points, again and again, up to these"
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
    rounds = _rounds(settings)
    with _frozen(model):
        integrator = _Integrator(model, tokenizer, settings)
        for number, (rule, points) in enumerate(rounds):
            missed: list[int] = []
            for batch in _batches(pending, encoded, integrator.batch_tokens // points):
                coarser = [found[i] for i in batch] if number else None
                scored = integrator.scores([encoded[i] for i in batch], rule, points, coarser)
                found.update(zip(batch, scored, strict=True))
                above = [i for i in batch if not found[i].converged and number + 1 < len(rounds)]
                missed += above
                if progress is not None:
                    progress(len(batch) - len(above))
            pending = missed
    return [found[i] for i in range(len(encoded))]


def _rounds(settings: IntegrationSettings) -> list[tuple[Rule, int]]:
    """captum's rule and number of points that each round adds: M_n, T_n, M_2n, M_4n, ..."""
    steps = settings.steps
    rounds: list[tuple[Rule, int]] = [("riemann_middle", steps)]
    while 2 * steps <= settings.max_steps:
        rounds.append(("riemann_middle", steps) if len(rounds) > 1 else ("riemann_trapezoid", steps + 1))
        steps *= 2
    return rounds


class _Integrator:
    """captum around one model."""

    def __init__(self, model: Any, tokenizer: Any, settings: IntegrationSettings) -> None:
        from captum.attr import LayerIntegratedGradients

        self.model, self.settings = model, settings
        self.pad_id = tokenizer.pad_token_id
        self.refused = _refused_label(model)
        try:
            self.layer = model.get_input_embeddings()
        except NotImplementedError as error:
            raise AttributionError(
                f"{type(model).__name__} has no input embeddings to attribute to. Train an encoder that has."
            ) from error
        self.captum = LayerIntegratedGradients(self._captum_forward, self.layer)
        default = CPU_TOKENS if model.device.type == "cpu" else ACCELERATOR_TOKENS
        self.batch_tokens = settings.batch_tokens or default

    def scores(
        self, batch: Sequence[Encoded], rule: Rule, points: int, coarser: Sequence[TokenScores] | None
    ) -> list[TokenScores]:
        """Token scores of a batch by this rule, averaged with the scores of the round before, if any."""
        ids, baseline, *rest = self._tensors(batch)
        names = list(batch[0].inputs)[1:]
        if coarser is None:
            ends = self._ends(ids, baseline, names, rest)
        else:
            ends = [(one.log_odds, one.baseline_log_odds) for one in coarser]
        attributions = self.captum.attribute(
            ids,
            baselines=baseline,
            additional_forward_args=(names, *rest),
            n_steps=points,
            method=rule,
            internal_batch_size=max(len(batch), self.batch_tokens // ids.shape[1]),
        )
        by_token = attributions.double().sum(dim=-1).cpu()  # (prompts, tokens)
        if rule == "riemann_trapezoid":
            # captum weighs each of its n points by 1 / n, but 1 / (n - 1) lies between them.
            by_token *= points / (points - 1)
        found: list[TokenScores] = []
        for i, one in enumerate(batch):
            added, steps = by_token[i, : one.length].tolist(), points
            if coarser is not None:
                added = [(a + b) / 2 for a, b in zip(added, coarser[i].scores, strict=True)]
                steps = 2 * coarser[i].steps
            found.append(self._token_scores(one, added, ends[i], steps))
        return found

    def _token_scores(
        self, encoded: Encoded, scores: list[float], ends: tuple[float, float], steps: int
    ) -> TokenScores:
        difference = ends[0] - ends[1]
        delta = sum(scores) - difference
        allowed = self.settings.tolerance * max(abs(difference), self.settings.difference_floor)
        return TokenScores(
            *ends, delta, steps, abs(delta) <= allowed, encoded.truncated, encoded.offsets, tuple(scores)
        )

    def _ends(self, ids: Any, baseline: Any, names: list[str], rest: list[Any]) -> list[tuple[float, float]]:
        """F(x) and F(x') of each prompt."""
        import torch

        with torch.no_grad():
            at_input = self._log_odds(ids, names, *rest)
            embedded = self.layer(baseline)
            hook = self.layer.register_forward_hook(lambda *_: embedded)
            try:
                at_baseline = self._log_odds(ids, names, *rest)
            finally:
                hook.remove()
        if not (at_input.isfinite().all() and at_baseline.isfinite().all()):
            raise AttributionError(
                "The detector's logits are not finite numbers. Load it in float32, or train it again."
            )
        return list(zip(at_input.tolist(), at_baseline.tolist(), strict=True))

    def _captum_forward(self, ids: Any, names: list[str], *rest: Any) -> Any:
        """F, or only the embedding layer where captum, without gradients, asks for nothing but its output."""
        import torch

        return self._log_odds(ids, names, *rest) if torch.is_grad_enabled() else self.layer(ids)

    def _log_odds(self, ids: Any, names: list[str], *rest: Any) -> Any:
        """F: (rows, tokens) token ids -> (rows,) log-odds of refusal."""
        logits = self.model(input_ids=ids, **dict(zip(names, rest, strict=True))).logits
        if self.refused is None:
            return logits[:, 0]
        return logits[:, self.refused] - logits[:, 1 - self.refused]

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
