"""What a detector is trained on and how: examples, settings, and the checks before any training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import Field, field_validator

from generators.settings import SettingsSection
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import normalised, prompt_id
from overbench_tasks.text import number_of

Split = Literal["train", "validation", "test"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)

Device = Literal["auto", "cpu", "cuda", "mps"]

ID2LABEL: Final = {0: "accepted", 1: "refused"}
"""The labels of every detector, in the order of its logits."""


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt that the target has answered.

    Attributes:
        prompt: as the target got it, without chat template.
        refused: the target refused it. Unscored replies are no examples; whether a partial refusal
            is one is the caller's choice.
        split: the caller's choice before labelling, so that no round moves a prompt.
        in_domain: a generated near-boundary prompt of an earlier round, not a seed.
    """

    prompt: str
    refused: bool
    split: Split
    in_domain: bool = False


class DetectorSettings(SettingsSection):
    """How a detector is trained. The field descriptions are the documentation.

    Encoder, learning rate and epochs are the paper's (Pu et al. 2025, section 3.1). The paper does
    not give the rest.
    """

    model: str = Field(
        "microsoft/deberta-v3-base",
        min_length=1,
        description="the encoder: hub id, folder, or a name of `overbench models`; needs a fast tokenizer; "
        "for a probe the target's own model, or another chat model",
    )
    revision: str | None = Field(
        None, description="of the encoder on the hub; pin it to repeat a run exactly"
    )
    training: Literal["fine-tune", "probe"] = Field(
        "fine-tune",
        description="fine-tune: all weights of an encoder, as the paper does; probe: of a chat model, best "
        "the target itself, a linear layer behind one of its layers, which is chosen on validation; then "
        "pooling, learning_rate, epochs, patience, batch_size, warmup, weight_decay and precision mean "
        "nothing",
    )
    pooling: Literal["first", "mean"] = Field(
        "first",
        description="what the classifier reads: the first token, as the paper's encoder does; or the mean of "
        "all, for BERT and MPNet sentence encoders (minilm-l6-v2, all-mpnet-base-v2), which learn far better "
        "so from few prompts",
    )
    learning_rate: float = Field(
        2e-5,
        gt=0,
        lt=1,
        description="of AdamW, falling linearly to 0; small encoders need more (MiniLM: 1e-4)",
    )
    epochs: int = Field(3, ge=1, le=1000, description="passes over the training split, at most")
    patience: int = Field(
        2,
        ge=1,
        description="stop after so many epochs without a better validation AUROC; the best epoch is kept",
    )
    batch_size: int = Field(16, ge=1, description="prompts per step")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.01, ge=0, description="of AdamW")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="of the training's matrix products; bfloat16 is about twice as fast on GPUs and on CPUs "
        "that know it (avx512_bf16, amx), the weights stay in float32",
    )
    max_length: int = Field(
        256,
        ge=8,
        description="tokens read of a prompt, the rest is cut off; at most what the encoder can read",
    )
    balance: Literal["class", "domain", "none"] = Field(
        "class",
        description="class: both labels weigh the same in the loss; domain: also within the seeds and within "
        "the generated prompts, so that the kind of prompt tells the label no more; none: as counted",
    )
    in_domain_weight: float = Field(
        1.0,
        gt=0,
        description="what a generated prompt of an earlier round weighs in the loss; a seed weighs 1",
    )
    calibrate: bool = Field(
        True,
        description="fit the probabilities to validation; false leaves the model's own, which class weights "
        "shift",
    )
    threshold: Literal["f1", "half"] | float = Field(
        "f1",
        description="how the decision threshold is chosen: f1 maximises F1 on validation; a number in (0, 1) "
        "is a precision, and the smallest threshold that reaches it there is taken; half is a probability "
        "of 0.5",
    )
    tune_on: Literal["in_domain", "all"] = Field(
        "in_domain",
        description="the validation prompts that calibration and threshold rest on: in_domain takes the "
        "generated ones once there are enough of both labels, since those are what the detector then "
        "filters; all takes all",
    )
    seed: int = Field(
        0, ge=0, lt=2**32, description="of the new layer's weights, the order of prompts, dropout"
    )
    device: Device = Field(
        "auto",
        description="auto: CUDA, else MPS, else CPU; another GPU than the first by CUDA_VISIBLE_DEVICES",
    )

    @field_validator("threshold")
    @classmethod
    def _precision(cls, threshold: str | float) -> str | float:
        if not isinstance(threshold, str) and not 0 < threshold < 1:
            raise ValueError(f"expected f1, half or a precision between 0 and 1, got {threshold}")
        return threshold

    @property
    def encoder_name(self) -> str:
        """The encoder as others may know it: never a path of this machine."""
        path = Path(self.model)
        return (path.name or self.model) if path.is_absolute() or path.exists() else self.model


def checked_splits(examples: Iterable[Example]) -> dict[Split, list[Example]]:
    """The examples by split, in an order of their own, whatever order they came in.

    Raises:
        OverbenchError: nothing is refused or nothing accepted, in all or in one split; a split is
            empty; a prompt (by :func:`~overbench_tasks.prompts.normalised`) is in two splits.
    """
    everything = sorted(examples, key=lambda e: (prompt_id(e.prompt), e.prompt, e.refused, e.in_domain))
    if not everything:
        raise OverbenchError("There are no labelled prompts to train a detector on. Label some first.")
    refused = sum(example.refused for example in everything)
    if refused == 0:
        raise OverbenchError(
            f"The target refuses none of the {len(everything):,} labelled prompts: there is nothing to learn "
            "or to attribute. Try other seeds (nearer to what it may refuse), a larger sample, or another "
            "system prompt; if replies that look like refusals were labelled otherwise, try another labeller."
        )
    if refused == len(everything):
        raise OverbenchError(
            f"The target refuses all of the {len(everything):,} labelled prompts: there is no boundary to "
            "learn. Look at its replies (is the chat template applied? is the system prompt right?), or add "
            "harmless seeds."
        )
    splits = {split: [example for example in everything if example.split == split] for split in SPLITS}
    for split, rows in splits.items():
        refused = sum(example.refused for example in rows)
        if refused in (0, len(rows)):
            what = f"has {number_of(len(rows), 'prompt')}, {'all' if refused else 'none'} of them refused"
            raise OverbenchError(
                f"Expected refused and accepted prompts in the {split} split, but it "
                f"{what if rows else 'is empty'}. Use more seeds, or give the {split} split a larger share."
            )
    where: dict[str, set[Split]] = defaultdict(set)
    for example in everything:
        where[normalised(example.prompt)].add(example.split)
    if shared := {text: places for text, places in where.items() if len(places) > 1}:
        names = [split for split in SPLITS if any(split in places for places in shared.values())]
        raise OverbenchError(
            f"{number_of(len(shared), 'prompt is', 'prompts are')} in more than one split "
            f"({', '.join(names)}), such as {prompt_id(next(iter(shared)))}: the test would measure memory. "
            "Keep each prompt in the split it was first in."
        )
    return splits
