"""`overbench explain` on real models: how small triggers are, what they cost, and do they hold the words that
Integrated Gradients names on a detector? And is a planted sentence of a system instruction found?

    python benchmarks/explain_real.py         # the tables, from what is kept
    python benchmarks/explain_real.py --draw Qwen2.5-Coder-0.5B 120 FILE.jsonl  # refused prompts
    python benchmarks/explain_real.py --plant OUT --model TYPE --model_args ARGS  # asks the planted
    python benchmarks/explain_real.py --keep 0.5B=OUT 1.5B=OUT --planted 0.5B=OUT
    python benchmarks/explain_real.py --detector MiniLM=FOLDER --release 2.0  # attributes what is kept

OUT is the folder of an ``overbench explain --out OUT`` on drawn prompts, or of ``--plant``; FOLDER a trained
detector (``detector/round-1`` of a refresh), which names a word of each kept prompt that has a trigger and
no word of that detector yet. Kept in ``data/explained.jsonl.gz`` are ids, numbers of words, labels and
counts: no prompts and no replies. What is asked anew takes the place of what was kept of the same target,
release and way of asking; the rest stays.

The prompts of release 1.1 were written around words that Integrated Gradients named, on detectors of these
very targets; those of release 2.0 that are not from 1.1 were not. The tables keep them apart.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from explain_tables import USUAL, Record, lines

from generators.attribution.attribution import Attribution, attribute
from generators.attribution.attribution_settings import AttributionSettings
from generators.detector.detector_model import Detector
from generators.targets.target import Target
from overbench.explain.explain_run import PromptToExplain, explain
from overbench.explain.explain_settings import ExplainSettings
from overbench.explain.text_parts import TextPart, candidates, rarest_first, running_words, words_of
from overbench.explain.trigger_table import word_form
from overbench_tasks.prompts import prompt_id
from overbench_tasks.prompts.prompt_rows import Row, read_prompts
from overbench_tasks.prompts.sources import BUNDLED_RELEASES
from overbench_tasks.tables import read_table, whole_file

RELEASE = BUNDLED_RELEASES["overbench-2.0"]
RECORDS = Path(__file__).parent / "data" / "explained.jsonl.gz"
PLANTED = Path(__file__).with_name("planted_instructions.yaml")
MAX_GEN_TOKS = 48
"""Of a reply: these models refuse at its beginning."""
LONG = range(25, 41)
"""Running words of a long prompt."""


def released_prompts() -> list[Row]:
    """The prompts of release 2.0."""
    return read_prompts(RELEASE / "overbench.parquet")


@cache
def of_release_1() -> dict[str, Mapping[str, Any]]:
    """The prompts of release 1.1 by their ids."""
    return {row["id"]: row for row in read_prompts(BUNDLED_RELEASES["overbench-1.1"] / "overbench.parquet")}


def drawn(target: str, count: int) -> list[dict[str, str]]:
    """That many prompts of release 2.0, none of them from 1.1, that a target refused, half of them
    long (:data:`LONG`), both halves drawn by the hash of their ids."""
    rows = (row for _, row in read_table(RELEASE / "matrix.parquet"))
    refused = {row["id"] for row in rows if row["target"] == target and row["label"] == "refused"}
    texts = {row["id"]: row["prompt"] for row in released_prompts()}
    possible = refused & texts.keys() - of_release_1().keys()
    long = {name for name in possible if running_words(words_of(texts[name])) in LONG}
    halves = ((long, count // 2), (possible - long, count - count // 2))
    return [{"id": name, "prompt": texts[name]} for some, size in halves for name in _by_hash(some)[:size]]


def _by_hash(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())


def plant(out: Path, model: str, model_args: str) -> None:
    """Explain the planted instructions' prompts, an instruction after the other, into folders of ``out``."""
    for number, case in enumerate(yaml.safe_load(PLANTED.read_text(encoding="utf-8"))):
        instruction = " ".join(case["sentences"])
        target: dict[str, Any] = {"model": model, "model_args": model_args, "system_instruction": instruction}
        target["max_gen_toks"] = MAX_GEN_TOKS
        settings = ExplainSettings.model_validate({"target": target, "units": "sentences"})
        prompts = [PromptToExplain(prompt_id(text), text) for text in case["prompts"]]
        folder = out / f"instruction-{number}"
        for _ in explain(prompts, settings, Target(settings.target, settings.generation), folder):
            pass


def planted_records(target: str, out: Path) -> Iterator[dict[str, Any]]:
    """A record per planted prompt."""
    for number, case in enumerate(yaml.safe_load(PLANTED.read_text(encoding="utf-8"))):
        for _, row in read_table(out / f"instruction-{number}" / "explain.jsonl"):
            search = row["sentences"]
            yield {
                "target": target,
                "instruction": number,
                "planted": case["planted"],
                "id": row["id"],
                "state": row["state"],
                "search": search and search["state"],
                "triggers": search and search["triggers"],
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
    places = {position: number for number, word in enumerate(words) for position in word.places}
    return places.get((best.start, best.end))


def written_around(prompt: str, features: Sequence[str]) -> list[int]:
    """The numbers of the words that a prompt was written around: in their dictionary forms, they begin with
    the same four letters."""
    beginnings = {word_form(word)[:4] for feature in features for word in feature.split()}
    return [number for number, word in enumerate(words_of(prompt)) if word_form(word.text)[:4] in beginnings]


def explained_records(target: str, out: Path) -> Iterator[dict[str, Any]]:
    """A record per explained prompt."""
    settings = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    way = f"{settings['by']}, {settings['samples']} replies" if settings["samples"] > 1 else settings["by"]
    for _, row in read_table(out / "explain.jsonl"):
        words, search = words_of(row["prompt"]), row["words"]
        content = [number for number in candidates(words) if not words[number].excluded]
        named = {}
        if content:
            named["rarest"] = rarest_first(words, content)[0]
            named["random"] = random.Random(row["id"]).choice(content)
        old = of_release_1().get(row["id"])
        yield {
            "target": target,
            "release": "1.1" if old else "2.0",
            "written_around": written_around(old["prompt"], old["features"]) if old else None,
            "way": f"{way}, by probability" if settings["by_probability"] else way,
            "id": row["id"],
            "state": row["state"],
            "search": search and search["state"],
            "words": running_words(words),
            "tried": len(search["tried"]) if search else 0,
            "triggers": search and search["triggers"],
            "variant_label": search and search["variant_label"],  # of the reply without the trigger
            "calls": row["calls"],
            "named": named,
            "attributed": {},
        }


def attribute_records(records: Iterable[dict[str, Any]], name: str, folder: Path) -> None:
    """Add the words that a detector names, by the raw and by the frequency-adjusted score, to records."""
    texts = {row["id"]: row["prompt"] for row in released_prompts()}
    texts |= {number: row["prompt"] for number, row in of_release_1().items()}
    asked_as_usual = (row for row in records if row.get("way") == USUAL and row["triggers"])
    pending = [row for row in asked_as_usual if name not in row["attributed"]]
    prompts = {row["id"]: texts[row["id"]] for row in pending}
    loaded = Detector.load(folder, device="cpu")
    every = attribute(loaded.model, loaded.tokenizer, list(prompts.items()), AttributionSettings())
    attributions = dict(zip(prompts, every, strict=True))
    for row in pending:
        attribution, words = attributions[row["id"]], words_of(prompts[row["id"]])
        scores = {"raw": False, "adjusted": True}
        row["attributed"][name] = {
            score: top_word(attribution, words, adjusted=adjusted) for score, adjusted in scores.items()
        }


def kept() -> list[dict[str, Any]]:
    return [row for _, row in read_table(RECORDS)] if RECORDS.is_file() else []


def _asked_alike(record: Record) -> tuple[Any, ...]:
    """What the records of one asking have in common."""
    return record["target"], record.get("release"), record.get("way"), "instruction" in record


def keep(records: Iterable[Record]) -> None:
    """The same records give the same bytes."""
    text = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
    with whole_file(RECORDS) as file:
        file.buffer.write(gzip.compress(text.encode(), mtime=0))


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
    parser.add_argument("--planted", nargs="*", default=[], metavar="NAME=OUT")
    parser.add_argument("--detector", metavar="NAME=FOLDER")
    parser.add_argument("--release", choices=("1.1", "2.0"), help="attribute the prompts of this one alone")
    given = parser.parse_args()
    if given.draw:
        with whole_file(Path(given.draw[2])) as file:
            file.writelines(json.dumps(row) + "\n" for row in drawn(given.draw[0], int(given.draw[1])))
        return
    if given.plant:
        plant(given.plant, given.model, given.model_args)
        return
    new: list[dict[str, Any]] = []
    for made, folders in ((explained_records, given.keep), (planted_records, given.planted)):
        for name, _, out in (argument.partition("=") for argument in folders):
            new += made(name, Path(out))
    replaced = set(map(_asked_alike, new))
    records = [row for row in kept() if _asked_alike(row) not in replaced] + new
    if given.detector:
        name, _, folder = given.detector.partition("=")
        of_release = (row for row in records if given.release in (None, row.get("release")))
        attribute_records(of_release, name, Path(folder))
    if not records:
        raise SystemExit(f"Nothing is kept in {RECORDS} yet: --draw, overbench explain, then --keep.")
    if new or given.detector:
        keep(records)
    print("\n".join(lines(records)))


if __name__ == "__main__":
    main()
