"""Prompts as a detector reads them: token ids, their baseline, and which characters each stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from generators.attribution.attribution_settings import AttributionSettings
from overbench_tasks.errors import OverbenchError


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


def encode(tokenizer: Any, prompts: Sequence[str], settings: AttributionSettings) -> list[Encoded]:
    """Tokenise prompts as the detector does; texts beyond its longest input are cut.

    Args:
        tokenizer: the detector's, a fast one; ``model_max_length`` is its longest input.
        prompts: without surrogate code points.
        settings: ``baseline`` replaces each token of a prompt; ``max_length`` may cut earlier.

    Raises:
        OverbenchError: the tokenizer lacks the baseline's token.
    """
    absent = {"pad": tokenizer.pad_token_id, "mask": tokenizer.mask_token_id}
    for name in ("pad", settings.baseline):
        if absent[name] is None:
            raise OverbenchError(
                f"The tokenizer has no {name} token, which the baseline or padding needs. Set its "
                f"{name}_token"
                + (", or set baseline: pad." if name == "mask" else " in the detector's folder.")
            )
    if not prompts:
        return []
    longest = tokenizer.model_max_length
    tokens = tokenizer(
        list(prompts),
        truncation=True,
        max_length=min(settings.max_length or longest, longest),
        return_attention_mask=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    names = ["input_ids", *(n for n in tokens if n in ("attention_mask", "token_type_ids"))]
    baseline = absent[settings.baseline]
    return [
        Encoded(
            {name: tokens[name][i] for name in names},
            [token if special else baseline for token, special in zip(ids, specials, strict=True)],
            tuple((start, end) for start, end in tokens["offset_mapping"][i]),
            bool(tokens.encodings[i].overflowing),
        )
        for i, (ids, specials) in enumerate(
            zip(tokens["input_ids"], tokens["special_tokens_mask"], strict=True)
        )
    ]
