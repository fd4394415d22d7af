"""Prompts as a detector reads them: token ids, their baseline, and which characters each stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from overbench_tasks.errors import OverbenchError

BaselineToken = Literal["pad", "mask"]


class AttributionError(OverbenchError):
    """The prompts cannot be attributed with this detector; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One tokenised prompt; ``inputs`` holds a list of equal length for each input of the model."""

    inputs: dict[str, list[int]]
    baseline: list[int]
    offsets: tuple[tuple[int, int], ...]
    truncated: bool

    @property
    def length(self) -> int:
        return len(self.baseline)


def encode(
    model: Any, tokenizer: Any, prompts: Sequence[str], baseline: BaselineToken, max_length: int | None
) -> list[Encoded]:
    """Tokenise prompts as the detector does; texts beyond its longest input are cut.

    Args:
        model: the detector.
        tokenizer: its fast tokenizer.
        prompts: without surrogate code points.
        baseline: what each token of a prompt is replaced by.
        max_length: tokens per prompt, special ones included, if below what the detector takes.

    Raises:
        AttributionError: the tokenizer has no offsets, or lacks the baseline's token.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise AttributionError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, and only these say which characters a "
            "token stands for. Load it with use_fast=True, or train an encoder that has one."
        )
    absent = {"pad": tokenizer.pad_token_id, "mask": tokenizer.mask_token_id}
    for name in ("pad", baseline):
        if absent[name] is None:
            raise AttributionError(
                f"The tokenizer has no {name} token, which the baseline or padding needs. Set its "
                f"{name}_token"
                + (", or set baseline: pad." if name == "mask" else " in the detector's folder.")
            )
    if not prompts:
        return []
    longest = _max_length(model, tokenizer)
    tokens = tokenizer(
        list(prompts),
        truncation=True,
        max_length=min(max_length or longest, longest),
        padding=False,
        return_attention_mask=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    names = ["input_ids", *(n for n in tokens if n in ("attention_mask", "token_type_ids"))]
    return [
        Encoded(
            {name: tokens[name][i] for name in names},
            [
                token if special else absent[baseline]
                for token, special in zip(
                    tokens["input_ids"][i], tokens["special_tokens_mask"][i], strict=True
                )
            ],
            tuple((start, end) for start, end in tokens["offset_mapping"][i]),
            bool(tokens.encodings[i].overflowing),
        )
        for i in range(len(prompts))
    ]


def _max_length(model: Any, tokenizer: Any) -> int:
    """The most tokens that tokenizer and model both take (a tokenizer that sets no limit says 1e30)."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or 512]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(module, "num_embeddings"):
            # RoBERTa counts positions from after its padding index.
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - reserved)
    return int(min(limits))
