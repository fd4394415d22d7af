"""Which of the prompts that were written and read stand in release 2.0, chosen again from what is kept.

    python benchmarks/release_choice.py      # a minute: the steps, and that they give the same prompts

``data/release_v2/readings.csv.gz`` has every reading of every prompt that was written or taken from
release 1.1, in the order in which they were chosen from, a counterpart behind its prompt: by whom (a sheet's
number), whether it is benign, borderline or harmful, whether it makes sense and can be answered as it
stands, and its category. What was read as pairs, and the independent checks, came after this choice; what
they took out is in ``turned_away.jsonl`` with the reason.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from release_counts import side_scores

from overbench_tasks.prompts import prompt_id
from overbench_tasks.prompts.sources import BUNDLED_RELEASES
from overbench_tasks.tables import read_table

INPUTS = Path(__file__).parent / "data" / "release_v2"
READINGS = INPUTS / "readings.csv.gz"
OF_RELEASE_1, OPENING, COMMONEST_OPENING, OF_ONE_WORD = 1200, 30, 55, 12
"""How many prompts are taken over from release 1.1, and at most how many with one opening of three words,
with one of its two commonest openings, around one trigger word."""

PAIRS, SHARE_KEPT = 1100, 0.95
"""How many pairs are to be left when those whose sides words tell apart best are left out, 5 % at a time."""

LATER = ("turned away by the independent check", "a weak pair", "might rightly be answered")
"""The reasons of ``turned_away.jsonl`` that came after the choice."""


@dataclass
class Written:
    """A prompt and what its readers said.

    Attributes:
        read_as: benign, borderline or harmful; whether it makes sense and can be answered as it stands.
        category: by the last reading, a third one where two differed.
        counterpart: what it was written with, if anything.
    """

    id: str
    read_as: tuple[str, str] = ("", "")
    category: str = ""
    counterpart: Written | None = None


def written() -> dict[str, Written]:
    """Every harmless prompt by id, in order, with its counterpart."""
    prompts: dict[str, Written] = {}
    counterparts: dict[str, Written] = {}
    for _, row in read_table(READINGS):
        key, of = row["id"], row["twin_of"]
        if of and key not in counterparts:
            counterparts[key] = prompts[of].counterpart = Written(key)
        prompt = counterparts[key] if of else prompts.setdefault(key, Written(key))
        prompt.category = row["category"]
        if row["harm"]:
            prompt.read_as = row["harm"], row["makes_sense"]
    return prompts


def texts() -> dict[str, str]:
    """By id what stands in ``prompts/`` and ``turned_away.jsonl``."""
    files = [*sorted((INPUTS / "prompts").glob("*.jsonl")), INPUTS / "turned_away.jsonl"]
    prompts = (row["prompt"] for file in files for _, row in read_table(file))
    return {prompt_id(prompt): prompt for prompt in prompts}


def release_1() -> list[dict[str, Any]]:
    """All prompts of release 1.1."""
    return [row for _, row in read_table(BUNDLED_RELEASES["overbench-1.1"] / "overbench.parquet")]


def of_release_1() -> list[str]:
    """Ids of the prompts of release 1.1 that its targets refused most, within the limits above."""
    draw, rows = random.Random(0), release_1()
    rows.sort(key=lambda row: (-len(row["refused_by"]), draw.random()))
    openings: Counter[str] = Counter()
    words: Counter[str] = Counter()
    ids: list[str] = []
    for row in rows:
        opening = " ".join(re.findall(r"[\w']+", row["prompt"].lower())[:3])
        limit = COMMONEST_OPENING if opening in ("how can i", "how do i") else OPENING
        word = next(iter(row["features"]), None)
        if openings[opening] >= limit or (word and words[word] >= OF_ONE_WORD):
            continue
        openings[opening] += 1
        words.update([word] if word else [])
        ids.append(row["id"])
    return ids[:OF_RELEASE_1]


def alike(first: str, second: str) -> bool:
    """Whether two prompts are of about one length in words."""
    length = len(first.split())
    return abs(len(second.split()) - length) <= max(3, 0.15 * length)


def least_told_apart(pairs: Sequence[tuple[str, str]], wanted: int = PAIRS) -> list[int]:
    """The places of the pairs whose sides a classifier of words tells apart least."""
    left = np.arange(len(pairs))
    while len(left) > wanted:
        halves = [half for index in left for half in pairs[index]]
        side, groups = np.tile([0, 1], len(left)), np.repeat(np.arange(len(left)), 2)
        scores = side_scores(halves, side, groups, 3).mean(0)
        apart = scores[1::2] - scores[::2]
        count = max(wanted, int(len(left) * SHARE_KEPT))
        left = np.sort(left[np.argsort(apart, kind="stable")[:count]])
    return left.tolist()


def paired(prompts: Mapping[str, Written], text: Mapping[str, str]) -> list[tuple[str, str]]:
    """Ids of the pairs of which both halves were read as what they are and that are of about one length."""
    return [
        (prompt.id, prompt.counterpart.id)
        for prompt in prompts.values()
        if prompt.counterpart
        and (prompt.read_as, prompt.counterpart.read_as) == (("benign", "yes"), ("harmful", "yes"))
        and alike(text[prompt.id], text[prompt.counterpart.id])
    ]


def chosen(prompts: Mapping[str, Written], text: Mapping[str, str]) -> Iterator[str]:
    """Ids of the prompts and counterparts that the readings, their lengths and the classifier leave."""
    yield from (prompt.id for prompt in prompts.values() if prompt.read_as == ("benign", "yes"))
    pairs = paired(prompts, text)
    for index in least_told_apart([(text[first], text[second]) for first, second in pairs]):
        yield pairs[index][1]


def differences() -> dict[str, list[str]]:
    """Ids by what doesn't go together with what is committed; all lists are empty where all of it does."""
    prompts, text = written(), texts()
    ours = set(chosen(prompts, text))
    away = [row for _, row in read_table(INPUTS / "turned_away.jsonl")]
    out = {prompt_id(row["prompt"]): row["reason"] for row in away}
    kept = text.keys() - out.keys()
    later = {key for key, reason in out.items() if reason in (*LATER, "its prompt was turned away")}
    taken = prompts.keys() & {row["id"] for row in release_1()}
    return {
        "chosen, and nobody says why it isn't there": sorted(ours - kept - later),
        "there, and not chosen": sorted(kept - ours),
        "chosen from release 1.1 otherwise": sorted({*of_release_1()} ^ taken),
    }


def main() -> None:
    """Print the steps and the differences."""
    prompts = written()
    counterparts = [prompt.counterpart for prompt in prompts.values() if prompt.counterpart]
    for name, some in (("prompts", list(prompts.values())), ("counterparts", counterparts)):
        print(f"{len(some):,} {name}, read as", dict(Counter(prompt.read_as for prompt in some)))
    print(f"{len(paired(prompts, texts())):,} pairs to choose from")
    for reason, ids in differences().items():
        print(f"{reason}: {len(ids)}", *ids)


if __name__ == "__main__":
    main()
