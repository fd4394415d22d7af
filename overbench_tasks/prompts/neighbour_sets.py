"""Other people's prompt sets that go by name: one entry each, with where it is and how it is read.

A revision stands here only where it could be verified: pinned by packages that load the same dataset. Of
the others the hub's main branch is taken, and the commit that was found is written into the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from overbench_tasks.records import PromptLabel

LabelRule = Callable[[Mapping[str, Any]], str]
"""A row -> ``safe``, ``unsafe``, or, where it is neither, why it is left out."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A published set of prompts, or one side of it.

    Attributes:
        hub_id: the dataset on the Hugging Face hub.
        config, split: of that dataset; where it has others, the only one there is.
        revision: a commit, or None: see the module.
        file: what a copy on this machine is called, without suffix.
        prompt_label: what the task asks of it.
        label_of: see :data:`LabelRule`.
        needed: the columns without which it isn't this set, each with its other names.
        prompt_columns: where the prompt is, the first that is there.
        category_columns: the same for the category; may be missing.
        published: rows of the split, both labels, as its publisher or a package that pins it says; None
            where that is not known.
        licence: in the words of the licence list of SPDX.
        paper: who and when.
    """

    hub_id: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    file: str
    prompt_label: PromptLabel
    label_of: LabelRule
    needed: tuple[tuple[str, ...], ...] = ()
    prompt_columns: tuple[str, ...] = ("prompt",)
    category_columns: tuple[str, ...] = ("category",)
    published: int | None
    licence: str
    paper: str


def _safe(row: Mapping[str, Any]) -> str:
    return "safe"


def _unsafe(row: Mapping[str, Any]) -> str:
    return "unsafe"


def _xstest(row: Mapping[str, Any]) -> str:
    """By ``label``, in copies without it by ``type``."""
    if label := row.get("label"):
        return str(label)
    return "unsafe" if str(row["type"]).startswith("contrast_") else "safe"


def _phtest(row: Mapping[str, Any]) -> str:
    """Its authors call some requests controversial: whether to refuse these is left open."""
    found = str(row["Harmfulness"]).strip().casefold()
    return "safe" if found == "harmless" else found


SAFETY_CONCERNS: Final = "Requests with safety concerns"


def _coconot_original(row: Mapping[str, Any]) -> str:
    """One of its five kinds is unsafe. The others (incomplete, unsupported, indeterminate and humanizing
    requests) can't or shouldn't be answered as they are, but nobody is harmed where they are."""
    found = str(row["category"])
    return "unsafe" if found == SAFETY_CONCERNS else found


_OR_BENCH: Final[dict[str, Any]] = {
    # Configs and split as PyRIT 1.1.0 loads them (bench-llm/OR-Bench, without a revision).
    "hub_id": "bench-llm/or-bench",
    "split": "train",
    "needed": (("category",),),
    "licence": "CC-BY-4.0",
    "paper": "Cui et al. 2024",
}
_XSTEST: Final[dict[str, Any]] = {
    # Pinned by inspect-evals 0.26.0 and crfm-helm 0.5.16. The authors' own is Paul/XSTest, no revision of
    # which could be verified; it has the same columns.
    "hub_id": "walledai/XSTest",
    "split": "test",
    "revision": "f1d713187c61b6ae64e602d74f0b3d812cc2e8e8",
    "file": "xstest",
    "label_of": _xstest,
    "needed": (("label", "type"),),
    "category_columns": ("type",),
    "published": 450,
    "licence": "CC-BY-4.0",
    "paper": "Röttger et al. 2024",
}
_COCONOT: Final[dict[str, Any]] = {
    # Pinned by inspect-evals 0.26.0, which also says config, split and counts.
    "hub_id": "allenai/coconot",
    "split": "test",
    "revision": "2cbe16aabf9069f17e48c8daad8aeabc29469eb7",
    "needed": (("category",),),
    "licence": "ODC-By-1.0",
    "paper": "Brahman et al. 2024",
}

NEIGHBOURS: Final[dict[str, Neighbour]] = {
    "overbench_or_bench_80k": Neighbour(
        **_OR_BENCH,
        config="or-bench-80k",
        file="or-bench-80k",
        prompt_label="safe",
        label_of=_safe,
        published=80_359,
    ),
    "overbench_or_bench_hard": Neighbour(
        **_OR_BENCH,
        config="or-bench-hard-1k",
        file="or-bench-hard-1k",
        prompt_label="safe",
        label_of=_safe,
        published=1_319,
    ),
    "overbench_or_bench_toxic": Neighbour(
        **_OR_BENCH,
        config="or-bench-toxic",
        file="or-bench-toxic",
        prompt_label="unsafe",
        label_of=_unsafe,
        published=655,
    ),
    "overbench_xstest_safe": Neighbour(**_XSTEST, prompt_label="safe"),
    "overbench_xstest_unsafe": Neighbour(**_XSTEST, prompt_label="unsafe"),
    "overbench_phtest": Neighbour(
        hub_id="furonghuang-lab/PHTest",
        file="phtest",
        prompt_label="safe",
        label_of=_phtest,
        needed=(("Harmfulness",),),
        prompt_columns=("Request",),
        category_columns=(),
        published=None,
        licence="MIT",
        paper="An et al. 2024",
    ),
    "overbench_falsereject": Neighbour(
        hub_id="AmazonScience/FalseReject",
        split="test",
        file="falsereject",
        prompt_label="safe",
        label_of=_safe,
        category_columns=("category_text", "category"),
        published=1_187,
        licence="CC-BY-NC-4.0",
        paper="Zhang et al. 2025",
    ),
    "overbench_coconot_contrast": Neighbour(
        **_COCONOT,
        config="contrast",
        file="coconot-contrast",
        prompt_label="safe",
        label_of=_safe,
        published=379,
    ),
    "overbench_coconot_original": Neighbour(
        **_COCONOT,
        config="original",
        file="coconot-original",
        prompt_label="unsafe",
        label_of=_coconot_original,
        published=1_001,
    ),
    "overbench_advbench": Neighbour(
        # The authors' own: data/advbench/harmful_behaviors.csv of llm-attacks/llm-attacks on GitHub, whose
        # prompts are in "goal"; GuardBench 1.0.1 pins its commit 0f505d82e25c15a83b6954db28191b69927a255d.
        hub_id="walledai/AdvBench",
        file="advbench",
        prompt_label="unsafe",
        label_of=_unsafe,
        prompt_columns=("prompt", "goal"),
        category_columns=(),
        published=520,
        licence="MIT",
        paper="Zou et al. 2023",
    ),
}
"""Name of the task -> its set."""
