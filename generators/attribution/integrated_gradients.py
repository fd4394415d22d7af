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
prompt has points of its own (:mod:`generators.attribution.integration_path`), more where its path is
steep, and none is thrown away when others are added. captum takes, for each point, one step over a path of
the same direction and length around it, which gives the slope there; the forward pass of that step gives F.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from generators.attribution.attribution_settings import AttributionSettings, Output
from generators.attribution.integration_path import Array, IntegrationPath
from overbench_tasks.errors import OverbenchError


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What each token of one prompt adds to the output F.

    Attributes:
        log_odds, baseline_log_odds: of the prompt x and its baseline x', whatever the output.
        delta: sum of scores - (F(x) - F(x')).
        steps, converged, truncated: see :class:`~generators.attribution.attribution.Attribution`.
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
    model: Any, tokenizer: Any, prompts: Sequence[str], settings: AttributionSettings
) -> list[TokenScores]:
    """Attribute each prompt's output, the refusal log-odds or probability, to its tokens.

    Points of prompts of like length share a batch. Each prompt first gets ``settings.steps`` points; those
    whose delta is above tolerance get more, as long as there are at most ``settings.max_steps``.
    A prompt's scores do not depend on the order of ``prompts``; on which others share its batch they
    depend by float rounding only (about 1e-6).

    Args:
        model: a sequence classifier of transformers in eval mode, with logits (batch, 2) of accepted and
            refused. Stays on its device, and as it is.
        tokenizer: its fast tokenizer, which knows its longest input.
        prompts: without surrogate code points.
        settings: all but those that choose features.

    Returns:
        One per prompt, in the order of ``prompts``.

    Raises:
        OverbenchError: the tokenizer lacks the baseline's token, or the model gives numbers that are not
            finite.
    """
    encoded = _encode(tokenizer, prompts, settings)
    every = [(one, IntegrationPath(settings.steps, settings.output)) for one in encoded]
    # By content, not by place, within a length: the batches are the same for any order of prompts.
    pending = sorted(every, key=lambda pair: (len(pair[0].baseline), pair[0].inputs["input_ids"]))
    room = settings.room(model.device.type)
    while pending:
        for batch in _batches(pending, room):
            _evaluate(model, tokenizer.pad_token_id, batch, room)
            for one, path in batch:
                if not _token_scores(one, path, settings).converged:
                    path.refine(settings.max_steps)
        pending = [(one, path) for one, path in pending if len(path.wanted)]
    return [_token_scores(one, path, settings) for one, path in every]


@dataclass(frozen=True, slots=True)
class _Encoded:
    """One tokenised prompt; ``inputs`` holds a list of equal length for each input of the model."""

    inputs: dict[str, list[int]]
    baseline: list[int]
    offsets: tuple[tuple[int, int], ...]
    truncated: bool


_Pair = tuple[_Encoded, IntegrationPath]


def _encode(tokenizer: Any, prompts: Sequence[str], settings: AttributionSettings) -> list[_Encoded]:
    """Tokenise prompts as the detector does; texts beyond its longest input are cut."""
    absent = {"pad": tokenizer.pad_token_id, "mask": tokenizer.mask_token_id}
    for name in ("pad", settings.baseline):
        if absent[name] is None:
            advice = ", or set baseline: pad." if name == "mask" else " in the detector's folder."
            raise OverbenchError(
                f"The tokenizer has no {name} token, which the baseline or padding needs. Set its "
                f"{name}_token{advice}"
            )
    if not prompts:
        return []
    longest = min(settings.max_length or tokenizer.model_max_length, tokenizer.model_max_length)
    if longest <= (around := tokenizer.num_special_tokens_to_add()):
        raise OverbenchError(
            f"attribution.max_length is {longest}, but the detector puts {around} tokens around each prompt. "
            f"Set it to more than {around}."
        )
    tokens = tokenizer(list(prompts), truncation=True, max_length=longest, return_attention_mask=True)
    encoded = []
    for found, *values in zip(tokens.encodings, *tokens.values(), strict=True):
        each = zip(found.ids, found.special_tokens_mask, strict=True)
        baseline = [token if special else absent[settings.baseline] for token, special in each]
        inputs = dict(zip(tokens, values, strict=True))
        encoded.append(_Encoded(inputs, baseline, tuple(found.offsets), bool(found.overflowing)))
    return encoded


def _batches(pending: Sequence[_Pair], room: int) -> Iterator[list[_Pair]]:
    """Runs of prompts (shortest first) whose points fill ``room`` tokens, padding counted."""
    batch: list[_Pair] = []
    points = 0
    for one, path in pending:
        points += len(path.wanted)
        if batch and len(one.baseline) * points > room:
            yield batch
            batch, points = [], len(path.wanted)
        batch.append((one, path))
    yield batch


def _token_scores(encoded: _Encoded, path: IntegrationPath, settings: AttributionSettings) -> TokenScores:
    scores = path.scores()
    difference = float(path.values[-1] - path.values[0])
    delta = float(scores.sum()) - difference
    converged = abs(delta) <= settings.tolerance * max(abs(difference), settings.difference_floor)
    shares, steps = tuple(scores.tolist()), len(path.places)
    return TokenScores(*path.ends, delta, steps, converged, encoded.truncated, encoded.offsets, shares)


def _evaluate(model: Any, pad_id: int, pairs: Sequence[_Pair], room: int) -> None:
    """Give each path the values at its wanted places, in passes of at most ``room`` tokens."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    batch, paths = [one for one, _ in pairs], [path for _, path in pairs]

    def padded(rows: Sequence[list[int]], value: int) -> Any:
        tensors = [torch.tensor(row) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=value).to(model.device)

    inputs = {
        name: padded([one.inputs[name] for one in batch], pad_id if name == "input_ids" else 0)
        for name in batch[0].inputs
    }  # each (prompts, tokens)
    absent = padded([one.baseline for one in batch], pad_id)
    layer = model.get_input_embeddings()
    with torch.no_grad():  # (prompts, tokens, dimensions)
        alike, read = _read_once(model, inputs["input_ids"], absent)
        start, end = layer(absent[:, alike:]), layer(inputs["input_ids"][:, alike:])
    inputs["input_ids"] = inputs["input_ids"][:, alike:]
    counts = [len(path.wanted) for path in paths]
    places = np.concatenate([path.wanted for path in paths])
    owners = np.repeat(np.arange(len(batch)), counts)  # each point's prompt
    passes = []
    at_once = max(1, room // (alike + end.shape[1]))
    for first in range(0, len(owners), at_once):
        rows = torch.as_tensor(owners[first : first + at_once], device=model.device)
        there = torch.as_tensor(places[first : first + at_once], dtype=end.dtype, device=model.device)
        chosen = {name: values[rows] for name, values in inputs.items()}
        if read is not None:
            chosen["past_key_values"] = copy.deepcopy(read)
            chosen["past_key_values"].batch_repeat_interleave(len(rows))
        passes.append(_on_paths(model, there, start[rows], end[rows], chosen, paths[0].output))
    cuts = np.cumsum(counts)[:-1]
    values = (np.split(np.concatenate(one), cuts) for one in zip(*passes, strict=True))
    for one, path, log_odds, slopes in zip(batch, paths, *values, strict=True):
        path.add(log_odds, np.pad(slopes[:, : len(one.baseline) - alike], ((0, 0), (alike, 0))))


def _read_once(model: Any, ids: Any, absent: Any) -> tuple[int, Any]:
    """How many first tokens all prompts and baselines have in common, such as a chat template's, and the
    model's cache of them: where it reads from left to right, they need to be read once. One token at least is
    left. Of any other model (0, None)."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    if "past_key_values" not in inspect.signature(model.forward).parameters:
        return 0, None
    config = model.config
    causal = getattr(config, "is_causal", None) in (None, True)
    if not causal or getattr(config, "use_bidirectional_attention", False):
        return 0, None
    same = ((ids == ids[:1]) & (absent == ids[:1])).all(dim=0)
    alike = min(int(same.long().cumprod(dim=0).sum()), int(ids.shape[1]) - 1)
    if not alike:
        return 0, None
    read = model.base_model(ids[:1, :alike], use_cache=True).past_key_values
    plain = {type(one) for one in getattr(read, "layers", (None,))} <= {
        DynamicLayer,
        DynamicSlidingWindowLayer,
    }
    return (alike, read) if plain else (0, None)


def _on_paths(
    model: Any, places: Any, start: Any, end: Any, inputs: Mapping[str, Any], output: Output
) -> tuple[Array, Array]:
    """Log-odds (rows,), and what each token adds to dF/da (rows, tokens), at one place of each row's path.

    ``places`` (rows,) are in [0, 1]; ``start`` and ``end`` (rows, tokens, dimensions) are embeddings of the
    baseline and of the prompt, ``inputs`` (rows, tokens) the model's, and ``output`` is what F is.
    """
    import torch
    from captum.attr import LayerIntegratedGradients

    embedded_here, seen = torch.nn.Identity(), []

    def output_at(place: Any) -> Any:
        embedded = embedded_here(start + place[:, None, None] * (end - start))
        if not torch.is_grad_enabled():
            return place  # captum asks only for the output of its layer
        # Whatever the token ids, these are the embeddings that the model goes on with.
        hook = model.get_input_embeddings().register_forward_hook(lambda *_: embedded)
        try:
            logits = model(**inputs).logits
        finally:
            hook.remove()
        if not logits.isfinite().all():
            raise OverbenchError(
                "The detector's logits are not finite numbers. Load it in float32, or train it again."
            )
        log_odds = logits[:, 1] - logits[:, 0]
        seen.append(log_odds.detach().double().cpu().numpy())
        return log_odds.sigmoid() if output == "probability" else log_odds

    slopes = LayerIntegratedGradients(output_at, embedded_here).attribute(
        places + 0.5,
        baselines=places - 0.5,
        n_steps=1,
        method="gausslegendre",  # of one step: the gradient in the middle, times end - start
    )
    return seen[-1], slopes.sum(dim=-1).double().cpu().numpy()
