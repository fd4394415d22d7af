"""Seed prompts: read from files or the hub, and parted so that no part knows another's.

Pu et al. 2025, section 3.1: 30,000 prompts from HH-RLHF and ToxiGen train the detector, 90/5/5, and are
kept apart from the prompts that new ones are made from.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from generators.seeds.seed_sources import HUB_SETS, SeedError, UnusableRowError, prompt_of, rows
from overbench_tasks.prompts import MAX_PROMPT_CHARS, normalised, prompt_id

SeedPart = Literal["train", "validation", "test", "generation"]

PARTS: Final[tuple[SeedPart, ...]] = get_args(SeedPart)
"""Three of the detector, and the seeds of new prompts."""

DROP_REASONS: Final = (
    "empty",
    "not_text",
    "no_user_turn",
    "no_column",
    "unreadable",
    "too_long",
    "control_characters",
    "not_unicode",
    "duplicate",
    "over_limit",
)
"""Why a row gives no seed. ``unreadable``: no JSON object or string, or a CSV row with too few or too many
fields; ``not_unicode``: bytes that are no UTF-8, or lone surrogates; ``duplicate``: of an earlier
row, by normalised text."""


class SeedSettings(BaseModel):
    """Which seeds are read and how they are parted. The field descriptions are the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: tuple[str, ...] = Field(
        ("hh-rlhf", "toxigen"),
        min_length=1,
        description="files (.jsonl, .csv, .parquet, .txt, also with .gz) and built-in sets "
        f"({', '.join(HUB_SETS)}), as a list or separated by commas",
    )
    column: str | None = Field(
        None,
        description="of the prompts in a file; null: the first that is there of prompt, question, text, ...",
    )
    revisions: dict[str, str] = Field(
        default_factory=dict, description="branch, tag or commit by built-in set; the newest for the others"
    )
    limit: int | None = Field(
        None,
        ge=1,
        description="most prompts in all, evenly from the sources (what one lacks, the others give); null: "
        "whole files, and 20,000 of each built-in set, which leaves the paper's 30,000 for the detector",
    )
    max_chars: int = Field(
        MAX_PROMPT_CHARS, ge=1, le=MAX_PROMPT_CHARS, description="characters; longer prompts are dropped"
    )
    generation: float = Field(
        0.25,
        ge=0,
        description="prompts kept apart as seeds of new ones: below 1 a share of all, from 1 on a number",
    )
    validation: float = Field(0.05, ge=0, lt=1, description="share of the detector's prompts")
    test: float = Field(0.05, ge=0, lt=1, description="share of the detector's prompts")
    seed: int = Field(0, description="of the choice and of the parts")

    @field_validator("sources", mode="before")
    @classmethod
    def _separated(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @model_validator(mode="after")
    def _possible(self) -> SeedSettings:
        if self.validation + self.test >= 1:
            raise ValueError(
                "expected validation and test to leave prompts for training, got "
                f"{self.validation} and {self.test}"
            )
        if self.generation >= 1 and self.generation != int(self.generation):
            raise ValueError(
                f"expected generation to be a share below 1 or a whole number, got {self.generation}"
            )
        if unknown := [name for name in self.revisions if name not in HUB_SETS]:
            raise ValueError(
                f"revisions are of built-in sets ({', '.join(HUB_SETS)}), got one of {', '.join(unknown)}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Seeds:
    """What was read.

    Attributes:
        prompts: distinct by normalised text; in the order of the sources and their rows.
        dropped: rows by reason, every one of :data:`DROP_REASONS`, zeros too. With ``prompts`` they add up
            to the rows read.
        by_source: prompts kept, by source.
    """

    prompts: tuple[str, ...]
    dropped: Mapping[str, int]
    by_source: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed prompt, its :func:`~overbench_tasks.prompts.prompt_id` and the part it belongs to."""

    id: str
    prompt: str
    part: SeedPart


def read_seeds(settings: SeedSettings) -> Seeds:
    """Read all sources.

    Where there are more prompts than the limit, those with the lowest hash of seed and normalised text
    are kept: a lower limit gives a subset, and further rows push out few.

    Raises:
        SeedError: a source cannot be read, or no prompt is left.
    """
    dropped: Counter[str] = Counter(dict.fromkeys(DROP_REASONS, 0))
    known: set[bytes] = set()
    found = [_distinct(source, settings, known, dropped) for source in settings.sources]
    quotas = _quotas([len(prompts) for prompts in found], settings)
    kept: list[str] = []
    by_source: Counter[str] = Counter()
    for source, prompts, quota in zip(settings.sources, found, quotas, strict=True):
        chosen = _lowest(prompts, quota, settings.seed)
        kept += chosen
        by_source[source] += len(chosen)
        dropped["over_limit"] += len(prompts) - len(chosen)
    if not kept:
        counts = ", ".join(f"{reason} {count}" for reason, count in dropped.items() if count)
        raise SeedError(
            f"No prompts in {', '.join(settings.sources)}. Rows dropped: "
            f"{counts or 'none, there are no rows'}. Check the file and the setting 'column'."
        )
    return Seeds(tuple(kept), dict(dropped), dict(by_source))


def _distinct(source: str, settings: SeedSettings, known: set[bytes], dropped: Counter[str]) -> list[str]:
    """The prompts of one source that are not yet in ``known``, which grows, like ``dropped``."""
    prompts = []
    for value in rows(source, settings.column, settings.revisions.get(source)):
        try:
            prompt = prompt_of(value, settings.max_chars)
        except UnusableRowError as reason:
            dropped[str(reason)] += 1
            continue
        key = hashlib.sha256(normalised(prompt).encode()).digest()
        if key in known:
            dropped["duplicate"] += 1
            continue
        known.add(key)
        prompts.append(prompt)
    return prompts


def _quotas(there: Sequence[int], settings: SeedSettings) -> list[int]:
    """How many prompts each source gives."""
    if settings.limit is None:
        return [
            min(count, HUB_SETS[source].default_limit) if source in HUB_SETS else count
            for source, count in zip(settings.sources, there, strict=True)
        ]
    quotas = [0] * len(there)
    left = settings.limit
    # The smallest first: what it lacks is shared by those that follow.
    for rank, at in enumerate(sorted(range(len(there)), key=lambda at: there[at])):
        quotas[at] = min(there[at], -(-left // (len(there) - rank)))
        left -= quotas[at]
    return quotas


def split(prompts: Sequence[str], settings: SeedSettings) -> list[Seed]:
    """Part prompts, each by its own text and the seed alone.

    So no text is in two parts, whatever its case and white space; further prompts leave the parts of
    the others as they are (but where ``generation`` is a number, some replace others there); and
    ``generation`` does not move a prompt from one of the detector's parts to another.

    Args:
        prompts: without lone surrogates, as :func:`read_seeds` gives them.

    Returns:
        one seed per distinct normalised text, in order of first appearance. Part sizes are only near
        their shares, which a hash decides prompt by prompt.

    Raises:
        SeedError: a part that should have prompts gets none.
    """
    by_text: dict[str, str] = {}
    for prompt in prompts:
        by_text.setdefault(normalised(prompt), prompt)
    apart = _generation(list(by_text), settings)
    seeds = [
        Seed(prompt_id(prompt), prompt, "generation" if text in apart else _detector_part(text, settings))
        for text, prompt in by_text.items()
    ]
    _check_parts(seeds, settings)
    return seeds


def _generation(texts: Sequence[str], settings: SeedSettings) -> set[str]:
    if settings.generation < 1:
        return {text for text in texts if _draw(settings.seed, "generation", text) < settings.generation}
    if settings.generation >= len(texts):
        raise SeedError(
            f"Expected more than {settings.generation:,.0f} prompts, the number set for 'generation', got "
            f"{len(texts):,}. Name more seeds or set a smaller number or a share."
        )
    ranked = sorted(texts, key=lambda text: (_draw(settings.seed, "generation", text), text))
    return set(ranked[: int(settings.generation)])


def _detector_part(text: str, settings: SeedSettings) -> SeedPart:
    at = _draw(settings.seed, "detector", text)
    if at < settings.test:
        return "test"
    return "validation" if at < settings.test + settings.validation else "train"


def _check_parts(seeds: Sequence[Seed], settings: SeedSettings) -> None:
    counts = Counter(seed.part for seed in seeds)
    wanted = {part for part in ("validation", "test", "generation") if getattr(settings, part) > 0}
    empty = [part for part in PARTS if not counts[part] and part in wanted | {"train"}]
    if empty:
        raise SeedError(
            f"{len(seeds):,} seed prompts are too few: none fell to {' and '.join(empty)}. Name more seeds, "
            "or raise the share."
        )


def _lowest(prompts: Sequence[str], count: int, seed: int) -> list[str]:
    if count >= len(prompts):
        return list(prompts)
    rank = {prompt: (_draw(seed, "limit", normalised(prompt)), prompt) for prompt in prompts}
    chosen = set(sorted(prompts, key=rank.__getitem__)[:count])
    return [prompt for prompt in prompts if prompt in chosen]


def _draw(seed: int, purpose: str, text: str) -> float:
    """A number in [0, 1) that looks random and depends on nothing else."""
    digest = hashlib.sha256(f"{seed} {purpose} {text}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
