"""Integrated Gradients of a detector's refusal log-odds, per token, many prompts at a time.

Sundararajan, Taly & Yan 2017, "Axiomatic Attribution for Deep Networks" (arXiv 1703.01365), through
captum's LayerIntegratedGradients over the output of the input embedding layer. For prompt x, baseline
x' and F the log-odds:

    IG_i = sum over dimensions d of (x_id - x'_id) * integral over a in [0, 1] of dF(x' + a (x - x')) / dx_id

The baseline x' is the same sequence with every token of the prompt replaced by the pad (or mask) token;
special tokens, positions and the attention mask stay as they are. So special tokens get exactly 0.
F(x') is evaluated at that very end of the path: models that derive positions from token ids (RoBERTa)
would place a sequence of pad tokens elsewhere, and completeness, sum_i IG_i = F(x) - F(x'), would fail.

The log-odds of an encoder change in a few steep places, and not at the same ones for each prompt. So each
prompt has points of its own (:mod:`generators.attribution.paths`), more where its path is steep, and none
is thrown away when others are added. captum takes, for each point, one step over a path of the same
direction and length around it, which gives the slope there; the forward pass of that step gives F there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from generators.attribution.paths import Array, Output, Path
from generators.attribution.tokens import AttributionError, BaselineToken, Encoded, encode

REFUSED = "refused"
"""The detector's label for refused prompts, in its configuration's ``id2label``."""

CPU_TOKENS, ACCELERATOR_TOKENS = 1024, 16_384


class IntegrationSettings(BaseModel):
    """How the integral is approximated. The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    output: Output = Field(
        "log_odds",
        description="what is attributed: the log-odds of refusal, or its probability, the sigmoid of them, "
        "which hardly moves where the detector is sure",
    )
    steps: int = Field(11, ge=2, description="points along the path that every prompt gets first")
    max_steps: int = Field(
        192, ge=2, description="a prompt above tolerance gets more, where its path is steep, up to these"
    )
    tolerance: float = Field(
        0.007,
        gt=0,
        lt=1,
        description="highest |sum of scores - (F(x) - F(baseline))|, as a share of |F(x) - F(baseline)|, "
        "where F is the output",
    )
    difference_floor: float = Field(
        0.1,
        ge=0,
        description="the tolerance is a share of at least this difference of the output, "
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
    """What each token of one prompt adds to the output F.

    Attributes:
        log_odds, baseline_log_odds: of the prompt x and its baseline x', whatever the output.
        delta: sum of scores - (F(x) - F(x')).
        steps: points that gave these scores.
        converged: whether ``delta`` is within tolerance.
        truncated: whether the detector reads only part of the prompt.
        offsets: ``[start, end)`` of each token in the prompt, in code points; (0, 0) for special tokens.
        scores: one per token, in units of F.
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
    """Attribute each prompt's output, the refusal log-odds or probability, to its tokens.

    Points of prompts of like length share a batch. Each prompt first gets ``settings.steps`` points; those
    whose delta is above tolerance get more, as long as there are at most ``settings.max_steps``.
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
    paths = [Path(settings.steps, settings.output) for _ in encoded]
    found: dict[int, TokenScores] = {}
    # By content, not by place, within a length: the batches are the same for any order of prompts.
    pending = sorted(range(len(encoded)), key=lambda i: (encoded[i].length, encoded[i].inputs["input_ids"]))
    with _frozen(model):
        integrator = _Integrator(model, tokenizer, settings)
        while pending:
            for batch in _batches(pending, encoded, paths, integrator.batch_tokens):
                integrator.evaluate([(encoded[i], paths[i]) for i in batch])
                for i in batch:
                    found[i] = _token_scores(encoded[i], paths[i], settings)
                    if not found[i].converged:
                        paths[i].refine(settings.max_steps)
                if progress is not None:
                    progress(sum(not len(paths[i].wanted) for i in batch))
            pending = [i for i in pending if len(paths[i].wanted)]
    return [found[i] for i in range(len(encoded))]


def _token_scores(encoded: Encoded, path: Path, settings: IntegrationSettings) -> TokenScores:
    scores = path.scores()
    difference = path.difference
    delta = float(scores.sum()) - difference
    converged = abs(delta) <= settings.tolerance * max(abs(difference), settings.difference_floor)
    return TokenScores(
        *path.ends,
        delta,
        len(path.places),
        converged,
        encoded.truncated,
        encoded.offsets,
        tuple(scores.tolist()),
    )


class _Integrator:
    """captum around one model."""

    def __init__(self, model: Any, tokenizer: Any, settings: IntegrationSettings) -> None:
        from captum.attr import LayerIntegratedGradients
        from torch import nn

        self.model = model
        self.pad_id = tokenizer.pad_token_id
        self.output = settings.output
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
        self.log_odds: Any = None  # (rows,), of the last pass

    def evaluate(self, batch: Sequence[tuple[Encoded, Path]]) -> None:
        """Give each path the values at its wanted places, in passes of at most ``batch_tokens`` tokens."""
        import torch

        ids, baseline, *others = self._tensors([encoded for encoded, _ in batch])
        with torch.no_grad():
            start, end = self.layer(baseline), self.layer(ids)  # (prompts, tokens, dimensions)
        counts = [len(path.wanted) for _, path in batch]
        places = np.concatenate([path.wanted for _, path in batch])
        owners = np.repeat(np.arange(len(batch)), counts)  # each point's prompt
        at_once = max(1, self.batch_tokens // ids.shape[1])
        log_odds, slopes = [], []
        for first in range(0, len(owners), at_once):
            rows = torch.as_tensor(owners[first : first + at_once], device=ids.device)
            there = torch.as_tensor(places[first : first + at_once], dtype=start.dtype, device=ids.device)
            tensors = [value[rows] for value in (start, end, ids, *others)]
            slopes.append(self._slopes(there, list(batch[0][0].inputs), *tensors))
            log_odds.append(self.log_odds.double().cpu().numpy())
        ends = np.cumsum(counts)[:-1]
        per_path = (np.split(np.concatenate(values), ends) for values in (log_odds, slopes))
        for (encoded, path), path_log_odds, path_slopes in zip(batch, *per_path, strict=True):
            path.add(path_log_odds, path_slopes[:, : encoded.length])

    def _slopes(self, places: Any, names: list[str], start: Any, end: Any, *values: Any) -> Array:
        """(rows, tokens) what each token adds to dF/da at these places (rows,) of the rows' paths."""
        pieces = self.captum.attribute(
            places + 0.5,
            baselines=places - 0.5,
            additional_forward_args=(names, start, end, *values),
            n_steps=1,
            method="gausslegendre",  # of one step: the gradient in the middle, times end - start
        )
        found: Array = pieces.sum(dim=-1).double().cpu().numpy()
        return found

    def _on_path(self, place: Any, names: list[str], start: Any, end: Any, *values: Any) -> Any:
        """F at places (rows,) on the path from start to end (rows, tokens, dimensions)."""
        import torch

        embedded = self.place(start + place[:, None, None] * (end - start))
        if not torch.is_grad_enabled():
            return place  # captum asks only for the output of its layer
        with self._embedded_as(embedded):
            log_odds = self._log_odds(dict(zip(names, values, strict=True)))
        if not log_odds.isfinite().all():
            raise AttributionError(
                "The detector's logits are not finite numbers. Load it in float32, or train it again."
            )
        self.log_odds = log_odds.detach()
        return log_odds.sigmoid() if self.output == "probability" else log_odds

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


def _batches(
    order: Sequence[int], encoded: Sequence[Encoded], paths: Sequence[Path], room: int
) -> Iterator[list[int]]:
    """Runs of ``order`` (shortest first) whose points fill ``room`` tokens, padding counted; never empty."""
    batch: list[int] = []
    points = 0
    for i in order:
        points += len(paths[i].wanted)
        if batch and encoded[i].length * points > room:
            yield batch
            batch, points = [], len(paths[i].wanted)
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
