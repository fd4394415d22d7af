"""The tables of ``explain_real.py``, from the records that it keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import not_
from statistics import median
from typing import Any

import numpy as np

from overbench.explain.trigger_table import SHORT_PROMPT_WORDS
from overbench.report.stats.comparisons import paired_test
from overbench_tasks.metrics import Rate

NAMINGS = {
    "raw": "Integrated Gradients",
    "adjusted": "the same, adjusted for frequency",
    "rarest": "the rarest word",
    "random": "a random word",
}
"""Who names a word of a prompt: a detector's attribution in two ways, and two that need none."""
USUAL = "removal"
"""The way of asking that the first two tables are about: a greedy reply to each variant."""
LONG_WORDS = 25
"""Calls are told apart for prompts of so many running words and more."""

Record = Mapping[str, Any]


def trigger_table(records: Sequence[Record]) -> Iterator[str]:
    """Per target and release: how many were searched, how large triggers are, and what they cost."""
    yield (
        "| target | prompts of | refused, of those asked | trigger found | of one word | words, median | "
        f"refuses whatever is left | calls, median (of prompts up to {SHORT_PROMPT_WORDS} words) | "
        f"(of {LONG_WORDS} to {SHORT_PROMPT_WORDS} words) |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (target, release), own in _grouped(_in_way(records, USUAL), "target", "release"):
        refused = [record for record in own if record["state"] == "refused"]
        sizes = _sizes(refused)
        left = sum(record["search"] == "refuses_whatever_is_left" for record in refused)
        short = [record for record in refused if record["words"] <= SHORT_PROMPT_WORDS]
        long = [record for record in short if record["words"] >= LONG_WORDS]
        calls = [f"{_median([record['calls'] for record in some])} ({len(some):,})" for some in (short, long)]
        yield (
            f"| {target} | {release} | {len(refused):,} of {len(own):,} | "
            f"{_share(len(sizes), len(refused))} | {_share(sizes.count(1), len(refused))} | "
            f"{_median(sizes)} | {_share(left, len(refused))} | {' | '.join(calls)} |"
        )


def agreement_table(records: Sequence[Record]) -> Iterator[str]:
    """Whose word is in a trigger, and Integrated Gradients on each detector against the baselines.

    The prompts of release 1.1 in two rows: those that were written around a word that Integrated Gradients
    names, in either form, and the others.
    """
    yield (
        f"| target | detector | prompts of | with a trigger | {' | '.join(NAMINGS.values())} | "
        "against the rarest word | adjusted | against a random word | adjusted |"
    )
    yield f"| --- | --- | --- | ---: |{' ---: |' * len(NAMINGS)} ---: | ---: | ---: | ---: |"
    for (target, release), own in _grouped(_in_way(records, USUAL), "target", "release"):
        for detector in sorted({name for record in own for name in record["attributed"]}):
            named = [(record, record["named"] | record["attributed"].get(detector, {})) for record in own]
            triggered = [
                pair for pair in named if pair[0]["triggers"] and None not in map(pair[1].get, NAMINGS)
            ]
            sets = {release: triggered}
            if release == "1.1":
                around = [
                    bool({words["raw"], words["adjusted"]} & set(record["written_around"]))
                    for record, words in triggered
                ]
                sets["1.1, around that word"] = list(compress(triggered, around))
                sets["1.1, around another"] = list(compress(triggered, map(not_, around)))
            for name, some in sets.items():
                if some:
                    cells = [target, detector, name, f"{len(some):,}", *_agreements(some)]
                    yield f"| {' | '.join(cells)} |"


def _agreements(some: Sequence[tuple[Record, Mapping[str, int]]]) -> Iterator[str]:
    hits = {naming: [words[naming] in _in_triggers(record) for record, words in some] for naming in NAMINGS}
    for naming_hits in hits.values():
        yield _share(sum(naming_hits), len(naming_hits))
    for other in ("rarest", "random"):
        for naming in ("raw", "adjusted"):
            yield _compared(hits[naming], hits[other])


def _in_triggers(record: Record) -> set[int]:
    return {word for trigger in record["triggers"] or () for word in trigger}


def _compared(hits: Sequence[bool], others: Sequence[bool]) -> str:
    """Of two ways of naming a word: prompts where only one's is in a trigger, and McNemar's exact test."""
    differences = np.array(hits, dtype=float) - np.array(others, dtype=float)
    first, second = (int((differences == side).sum()) for side in (1, -1))
    return f"{first:,} against {second:,}, p {paired_test(differences):.3g}"


def way_table(records: Sequence[Record]) -> Iterator[str]:
    """Other ways of asking the same prompts, beside the usual one; no lines where there are none."""
    usual = {(record["target"], record["id"]): record for record in _in_way(records, USUAL)}
    ways = [
        record
        for record in records
        if record.get("way", USUAL) != USUAL and (record["target"], record["id"]) in usual
    ]
    if ways:
        yield (
            "| target | way | refused, of those asked | trigger found | by removal | a word in common | "
            "calls, median |"
        )
        yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for (target, way), own in _grouped(ways, "target", "way"):
        refused = [record for record in own if record["state"] == "refused"]
        pairs = [(_in_triggers(record), _in_triggers(usual[target, record["id"]])) for record in refused]
        both = [bool(words & other) for words, other in pairs if words and other]
        shares = [_share(sum(bool(pair[index]) for pair in pairs), len(pairs)) for index in (0, 1)]
        yield (
            f"| {target} | {way} | {len(refused):,} of {len(own):,} | {' | '.join(shares)} | "
            f"{_share(sum(both), len(both))} | {_median([record['calls'] for record in refused])} |"
        )


def planted_table(records: Sequence[Record]) -> Iterator[str]:
    """Per target: of how many instructions the sentence named most often is the planted one."""
    yield "| target | planted sentence found | refused prompts | of these its trigger alone | calls, median |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for (target,), own in _grouped((record for record in records if "instruction" in record), "target"):
        refused = [record for record in own if record["state"] == "refused"]
        right, instructions = 0, sorted({record["instruction"] for record in own})
        for number in instructions:
            of_it = [record for record in refused if record["instruction"] == number]
            blamed = Counter(
                part for record in of_it for trigger in record["triggers"] or () for part in trigger
            )
            most = [part for part, count in blamed.items() if count == max(blamed.values())]
            right += bool(of_it) and most == [of_it[0]["planted"]]
        alone = sum(record["triggers"] == [[record["planted"]]] for record in refused)
        calls = median(record["calls"] for record in refused) if refused else 0
        yield (
            f"| {target} | {right} of {len(instructions)} | {len(refused)} of {len(own)} | {alone} | "
            f"{calls:g} |"
        )


def _in_way(records: Iterable[Record], way: str) -> Iterator[Record]:
    return (record for record in records if record.get("way") == way)


def _grouped(records: Iterable[Record], *by: str) -> list[tuple[tuple[str, ...], list[Record]]]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in by), []).append(record)
    return list(groups.items())


def _sizes(records: Iterable[Record]) -> list[int]:
    return [min(map(len, record["triggers"])) for record in records if record["triggers"]]


def _median(values: Sequence[int]) -> str:
    return f"{median(values):g}" if values else "–"


def _share(count: int, n: int) -> str:
    if not n:
        return "–"
    rate = Rate(count, n)
    return f"{count:,}: {100 * rate.value:.0f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def lines(records: Sequence[Record]) -> Iterator[str]:
    """All tables."""
    for table in (trigger_table, agreement_table, way_table, planted_table):
        if made := list(table(records)):
            yield from (*made, "")
