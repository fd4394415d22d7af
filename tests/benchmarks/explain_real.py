"""`overbench explain` on real models: how small triggers are, what they cost, and do they hold the words that
Integrated Gradients names on a detector? And is a planted sentence of a system instruction found?

    python tests/benchmarks/explain_real.py         # the tables, from what is kept
    python tests/benchmarks/explain_real.py --draw Qwen2.5-Coder-0.5B 230 FILE.jsonl  # refused prompts
    python tests/benchmarks/explain_real.py --plant OUT --model TYPE --model_args ARGS  # asks the planted
    python tests/benchmarks/explain_real.py --keep 0.5B=OUT 1.5B=OUT --detector FOLDER --planted 0.5B=OUT

OUT is the folder of an ``overbench explain --out OUT`` on drawn prompts, or of ``--plant``; FOLDER a trained
detector (``detector/round-1`` of a refresh). Kept in ``tests/data/explained.jsonl.gz`` are ids, numbers of
words, labels and counts: no prompts and no replies.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from generators.attribution.attribution import Attribution, attribute
from generators.attribution.attribution_settings import AttributionSettings
from generators.detector.detector_model import Detector
from generators.explain.explain_run import PromptToExplain, explain
from generators.explain.explain_settings import ExplainSettings
from generators.explain.text_parts import TextPart, candidates, rarest_first, words_of
from generators.explain.trigger_table import SHORT_PROMPT_WORDS
from generators.report.stats.comparisons import paired_test
from generators.targets.target import Target
from overbench_tasks.metrics import Rate
from overbench_tasks.prompts import prompt_id
from overbench_tasks.prompts.prompt_sets import BUNDLED, bundled_prompts
from overbench_tasks.tables import read_table, whole_file

RECORDS = Path(__file__).parents[1] / "data" / "explained.jsonl.gz"
PLANTED = Path(__file__).with_name("planted_instructions.yaml")
MAX_GEN_TOKS = 48
"""Of a reply: these models refuse at its beginning."""
NAMINGS = {
    "ig_adjusted": "frequency-adjusted Integrated Gradients",
    "ig_raw": "Integrated Gradients",
    "rarest": "the rarest word",
    "random": "a random word",
}

Record = Mapping[str, Any]


def drawn(target: str, count: int) -> list[dict[str, str]]:
    """That many prompts of the bundled release that a target refused, drawn by the hash of their ids."""
    rows = (row for _, row in read_table(BUNDLED / "matrix.parquet"))
    refused = {row["id"] for row in rows if row["target"] == target and row["label"] == "refused"}
    texts = {row["id"]: row["prompt"] for row in bundled_prompts("overbench")}
    chosen = sorted(refused & texts.keys(), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return [{"id": name, "prompt": texts[name]} for name in chosen[:count]]


def plant(out: Path, model: str, model_args: str) -> None:
    """Explain the planted instructions' prompts, an instruction after the other, into folders of ``out``."""
    for number, one in enumerate(yaml.safe_load(PLANTED.read_text(encoding="utf-8"))):
        instruction = " ".join(one["sentences"])
        target: dict[str, Any] = {"model": model, "model_args": model_args, "system_instruction": instruction}
        target["max_gen_toks"] = MAX_GEN_TOKS
        settings = ExplainSettings.model_validate({"target": target, "units": "sentences"})
        asked = [PromptToExplain(prompt_id(text), text) for text in one["prompts"]]
        folder = out / f"instruction-{number}"
        for _ in explain(asked, settings, Target(settings.target, settings.generation), folder):
            pass


def planted_records(target: str, out: Path) -> Iterator[dict[str, Any]]:
    """A record per planted prompt."""
    for number, one in enumerate(yaml.safe_load(PLANTED.read_text(encoding="utf-8"))):
        for _, row in read_table(out / f"instruction-{number}" / "explain.jsonl"):
            found = row["sentences"]
            yield {
                "target": target,
                "instruction": number,
                "planted": one["planted"],
                "id": row["id"],
                "state": row["state"],
                "search": found and found["state"],
                "triggers": found and found["triggers"],
                "calls": row["calls"],
            }


def top_word(attribution: Attribution, words: Sequence[TextPart], *, adjusted: bool = True) -> int | None:
    """The number of the word that an attribution names, of those that can be features; None without any.

    By the frequency-adjusted score (the paper's), or by the raw one.
    """
    possible = [word for word in attribution.words if not word.excluded]
    if not possible:
        return None
    best = max(possible, key=lambda word: word.adjusted if adjusted else word.raw)
    places = {place: number for number, word in enumerate(words) for place in word.places}
    return places.get((best.start, best.end))


def explained_records(target: str, out: Path, detector: Path | None) -> Iterator[dict[str, Any]]:
    """A record per explained prompt, with the words that others name."""
    rows = [row for _, row in read_table(out / "explain.jsonl")]
    named: dict[str, dict[str, int | None]] = {row["id"]: {} for row in rows}
    if detector is not None:
        loaded = Detector.load(detector, device="cpu")
        prompts = [(row["id"], row["prompt"]) for row in rows]
        for row, found in zip(
            rows, attribute(loaded.model, loaded.tokenizer, prompts, AttributionSettings()), strict=True
        ):
            words = words_of(row["prompt"])
            named[row["id"]]["ig_adjusted"] = top_word(found, words)
            named[row["id"]]["ig_raw"] = top_word(found, words, adjusted=False)
    for row in rows:
        words, found = words_of(row["prompt"]), row["words"]
        content = [number for number in candidates(words) if not words[number].excluded]
        if content:
            named[row["id"]]["rarest"] = rarest_first(words, content)[0]
            named[row["id"]]["random"] = random.Random(row["id"]).choice(content)
        yield {
            "target": target,
            "id": row["id"],
            "state": row["state"],
            "search": found and found["state"],
            "words": len(words),
            "tried": len(found["tried"]) if found else 0,
            "triggers": found and found["triggers"],
            "calls": row["calls"],
            "by": row["by"],
            "named": named[row["id"]],
        }


def keep(records: Iterable[Record]) -> None:
    """The same records give the same bytes."""
    lines = "".join(json.dumps(one, sort_keys=True) + "\n" for one in records)
    with whole_file(RECORDS) as file:
        file.buffer.write(gzip.compress(lines.encode(), mtime=0))


def trigger_table(records: Sequence[Record]) -> Iterator[str]:
    """Per target: how many were searched, how large triggers are, and what they cost."""
    yield (
        "| target | refused, of those asked | trigger found | of one word | words, median | "
        f"refuses whatever is left | calls, median (up to {SHORT_PROMPT_WORDS} words) |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for target, own in _by_target(one for one in records if "instruction" not in one):
        refused = [one for one in own if one["state"] == "refused"]
        sizes = [min(map(len, one["triggers"])) for one in refused if one["triggers"]]
        left = sum(one["search"] == "refuses_whatever_is_left" for one in refused)
        calls = [one["calls"] for one in refused if one["words"] <= SHORT_PROMPT_WORDS]
        yield (
            f"| {target} | {len(refused):,} of {len(own):,} | {_share(len(sizes), len(refused))} | "
            f"{_share(sizes.count(1), len(refused))} | {median(sizes):g} | {_share(left, len(refused))} | "
            f"{median(calls):g} |"
        )


def agreement_table(records: Sequence[Record]) -> Iterator[str]:
    """Per target: whose word is in a trigger, and Integrated Gradients against the two baselines."""
    yield "| target | a word named by | in a trigger | more than the rarest word | more than a random word |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for target, own in _by_target(one for one in records if "instruction" not in one):
        names = [name for name in NAMINGS if any(name in one["named"] for one in own)]
        told = [one for one in own if one["triggers"] and all(one["named"].get(n) is not None for n in names)]
        inside = [{word for trigger in one["triggers"] for word in trigger} for one in told]
        for name in names:
            words = [one["named"][name] for one in told]
            hits = sum(word in found for word, found in zip(words, inside, strict=True))
            cells = [
                "" if other == name or name == "random" else _compared(inside, words, told, other)
                for other in ("rarest", "random")
            ]
            yield f"| {target} | {NAMINGS[name]} | {_share(hits, len(told))} | {' | '.join(cells)} |"


def _compared(inside: Sequence[set[int]], words: Sequence[int], told: Sequence[Record], other: str) -> str:
    """Of two ways of naming a word: prompts where only one's is in a trigger, and McNemar's exact test."""
    others = [one["named"][other] for one in told]
    differences = np.array(
        [
            float(word in found) - float(another in found)
            for word, another, found in zip(words, others, inside, strict=True)
        ]
    )
    first, second = (int((differences == side).sum()) for side in (1, -1))
    return f"{first:,} against {second:,}, p {paired_test(differences):.3g}"


def planted_table(records: Sequence[Record]) -> Iterator[str]:
    """Per target: of how many instructions the sentence named most often is the planted one."""
    yield "| target | planted sentence found | refused prompts | of these its trigger alone | calls, median |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for target, own in _by_target(one for one in records if "instruction" in one):
        refused = [one for one in own if one["state"] == "refused"]
        right, instructions = 0, sorted({one["instruction"] for one in own})
        for number in instructions:
            of_it = [one for one in refused if one["instruction"] == number]
            blamed = Counter(part for one in of_it for trigger in one["triggers"] or () for part in trigger)
            most = [part for part, count in blamed.items() if count == max(blamed.values())]
            right += bool(of_it) and most == [of_it[0]["planted"]]
        alone = sum(one["triggers"] == [[one["planted"]]] for one in refused)
        calls = median(one["calls"] for one in refused) if refused else 0
        yield (
            f"| {target} | {right} of {len(instructions)} | {len(refused)} of {len(own)} | {alone} | "
            f"{calls:g} |"
        )


def _by_target(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    found: dict[str, list[Record]] = {}
    for one in records:
        found.setdefault(one["target"], []).append(one)
    return list(found.items())


def _share(count: int, n: int) -> str:
    rate = Rate(count, n)
    return f"{count:,}: {100 * rate.value:.0f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def lines(records: Sequence[Record]) -> Iterator[str]:
    """All tables."""
    for table in (trigger_table, agreement_table, planted_table):
        yield from (*table(records), "")


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", nargs=3, metavar=("TARGET", "COUNT", "FILE"))
    parser.add_argument("--plant", type=Path, metavar="OUT")
    parser.add_argument("--model", default="hf")
    parser.add_argument("--model_args", default="")
    parser.add_argument("--keep", nargs="*", default=[], metavar="NAME=OUT")
    parser.add_argument("--detector", type=Path, metavar="FOLDER")
    parser.add_argument("--planted", nargs="*", default=[], metavar="NAME=OUT")
    given = parser.parse_args()
    if given.draw:
        with whole_file(Path(given.draw[2])) as file:
            file.writelines(json.dumps(row) + "\n" for row in drawn(given.draw[0], int(given.draw[1])))
        return
    if given.plant:
        plant(given.plant, given.model, given.model_args)
        return
    if given.keep or given.planted:
        named = [one.partition("=") for one in given.keep]
        kept = [row for name, _, out in named for row in explained_records(name, Path(out), given.detector)]
        named = [one.partition("=") for one in given.planted]
        keep([*kept, *(row for name, _, out in named for row in planted_records(name, Path(out)))])
    if not RECORDS.is_file():
        raise SystemExit(f"Nothing is kept in {RECORDS} yet: --draw, overbench explain, then --keep.")
    print("\n".join(lines([row for _, row in read_table(RECORDS)])))


if __name__ == "__main__":
    main()
