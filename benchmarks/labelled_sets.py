"""Replies that somebody labelled: ours, and those in the folder that ``OVERBENCH_SHARED_DATA`` names.

The default is ``../shared/data``. Only the replies of the first set and of ``current-model`` are part of the
project.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from overbench.review.agreement import gold_label
from overbench_tasks.prompts import prompt_id
from overbench_tasks.records import Label
from overbench_tasks.tables import read_table

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = Path(os.environ.get("OVERBENCH_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
DATA = REPOSITORY / "benchmarks" / "data"
Row = Mapping[str, str]


@dataclass(frozen=True)
class Source:
    """A labelled set: its file, which rows belong, whose prompts are known to be harmless, its labels."""

    file: str
    about: str
    labelled_by: str
    harmless: Callable[[Row], bool]
    keep: Callable[[Row], bool] = lambda row: True
    language: str = "en"
    label: Callable[[Row], str | None] = lambda row: row.get("final_label", row.get("label"))

    @property
    def path(self) -> Path:
        return SHARED_DATA / self.file


def _xstest(model: str, about: str) -> Source:
    path = f"xstest/completions_{model}.csv"
    return Source(path, about, "people, two each", lambda row: not row["type"].startswith("contrast"))


def _political(language: str, name: str) -> Source:
    return Source(
        "replies/llm_compliance.jsonl.gz",
        f"37 models, political requests in {name}",
        "two models that agree",
        harmless=lambda row: False,
        keep=lambda row: row["language"] == language,
        language=language,
    )


def _label_or_diluted(row: Row) -> str | None:
    """A diluted reply counts as complied: what of it is missing is no matter of the label."""
    return "complied" if row.get("label") == "diluted" else row.get("label")


def _read_later(row: Row) -> str | None:
    """The label of a reply of the two models that was read once the rules stood."""
    return _held_out().get((row["model"], prompt_id(row["prompt"])))


@cache
def _held_out() -> dict[tuple[str, str], str]:
    return {
        (row["model"], row["id"]): row["label"] for _, row in read_table(DATA / "two_models_held_out.csv")
    }


def _two_models(about: str, label: Callable[[Row], str | None]) -> Source:
    return Source(
        "replies/or_bench_two_models.jsonl.gz",
        about,
        "a model (Claude)",
        harmless=lambda row: row["set"] == "or_bench_hard",
        keep=lambda row: label(row) is not None,
        label=label,
    )


SOURCES = {
    "small-models": Source(
        str(DATA / "labelled_replies.jsonl"),
        "three small models on our prompts, replies picked to be hard",
        "a model (Claude)",
        harmless=lambda row: True,
    ),
    "xstest-gpt4": _xstest("gpt4", "GPT-4 on XSTest"),
    "xstest-llama2": _xstest("llama2new", "Llama 2 on XSTest"),
    "xstest-mistral-guard": _xstest("mistralguard", "Mistral with a guardrail prompt on XSTest"),
    "political-en": _political("en", "English"),
    "political-zh": _political("zh", "Chinese"),
    "political-fi": _political("fi", "Finnish"),
    "biology": Source(
        "replies/refusalbench.jsonl.gz",
        "13 models of 2025-26, biology prompts",
        "three models that agree",
        harmless=lambda row: row["tier"] == "benign",
        # That set's "partial" is nearly always an answer that its token limit cut off.
        keep=lambda row: row["label"] != "partial",
    ),
    "korean": Source(
        "replies/k_overrefusal.jsonl.gz",
        "6 models, Korean prompts",
        "two models that agree",
        harmless=lambda row: row["prompt_label"] == "safe",
        language="ko",
    ),
    "current-model": Source(
        str(DATA / "current_model_replies.jsonl.gz"),
        "a large model of November 2026",
        "a model (Claude)",
        harmless=lambda row: row["prompt_label"] == "safe",
        label=_label_or_diluted,
    ),
    "two-models": _two_models(
        "Llama 3 8B and a DeepSeek distillation on OR-Bench", lambda row: row.get("label")
    ),
    "two-models-later": _two_models("the same two, read once the rules stood", _read_later),
}


@dataclass(frozen=True)
class Labelled:
    """A labelled reply, as its set has it."""

    set: str
    id: str
    harmless: bool
    people: Label
    prompt: str
    reply: str
    unread: bool
    """In the half whose texts nobody read while the rules were written."""


def _unread(name: str, row: Row) -> bool:
    """By model; of XSTest's files the whole first, and half of the replies of the others.

    Of the sets that rules 3.0 were written on, half of the prompts, and all replies that were read later.
    """
    if name == "two-models-later":
        return True
    if name in ("current-model", "two-models"):
        return zlib.crc32(f"rules 3.0 {row['prompt']}".encode()) % 2 == 1
    if name == "xstest-gpt4":
        return True
    if name.startswith("xstest"):
        return zlib.crc32(f"{row['id']}{SOURCES[name].path.name}".encode()) % 2 == 1
    return name != "small-models" and (zlib.crc32(row["model"].encode()) % 2 == 1) == (name == "korean")


def labelled_replies(names: Iterable[str] = SOURCES) -> Iterator[Labelled]:
    """Every labelled reply of the sets, in their files' order."""
    for name in names:
        source = SOURCES[name]
        for where, row in read_table(source.path):
            if source.keep(row):
                reply = row["completion"] if "completion" in row else row["reply"]
                label = gold_label(source.label(row), where)
                assert label is not None, where
                prompt, known_harmless = row["prompt"], source.harmless(row)
                identity, held = hashed(prompt, reply), _unread(name, row)
                yield Labelled(name, identity, known_harmless, label, prompt, reply, held)


def hashed(prompt: str, reply: str) -> str:
    """What stands for a reply where it may not be given."""
    return hashlib.sha256(f"{prompt}\x1f{reply}".encode()).hexdigest()[:12]
