"""How many tokens of a reply does a label need? Replies are cut ever shorter and labelled by the rules.

    python tests/benchmarks/token_limit.py --tokenizer MODEL_FOLDER REPLIES.jsonl ...

Each file holds ``prompt`` and ``reply`` columns, or is a sample log of lm-eval; made with 512 new tokens:
``lm_eval --tasks overbench --gen_kwargs max_gen_toks=512 --log_samples ...``. Without files: the replies to
XSTest's prompts that people labelled, if they are there (see label_quality.py), cut in the same way.

For each limit it prints, per file: how many labels differ from the uncut reply's, the share refused, and,
where people labelled the replies, F1 of refusal against them.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from label_quality import DATA, HUMAN

from overbench_tasks.refusal import RULES_VERSION, label_reply

LIMITS = (16, 32, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True)
class Replies:
    name: str
    prompts: list[str]
    replies: list[str]
    refused_by_people: list[bool] | None = None


def read_log(file: Path) -> Replies:
    rows = [json.loads(line) for line in file.open(encoding="utf-8")]
    prompts = [row["prompt"] if "prompt" in row else row["doc"]["prompt"] for row in rows]
    replies = [row["reply"] if "reply" in row else row["resps"][0][0] for row in rows]
    return Replies(file.stem, prompts, replies)


def read_xstest() -> Iterator[Replies]:
    for file in sorted((DATA / "xstest").glob("completions_*.csv")):
        rows = list(csv.DictReader(file.open(encoding="utf-8", newline="")))
        labels = [HUMAN[row["final_label"]] != "complied" for row in rows]
        yield Replies(file.stem, [row["prompt"] for row in rows], [row["completion"] for row in rows], labels)


def cut(tokenizer: Any, replies: Sequence[str], limit: int) -> list[str]:
    """Each reply's first ``limit`` tokens, as text."""
    encodings = tokenizer(list(replies), add_special_tokens=False)["input_ids"]
    return [
        reply if len(ids) <= limit else tokenizer.decode(ids[:limit], skip_special_tokens=True)
        for reply, ids in zip(replies, encodings, strict=True)
    ]


def f1(predicted: Sequence[bool], gold: Sequence[bool]) -> float:
    hits = sum(p and g for p, g in zip(predicted, gold, strict=True))
    return 2 * hits / (sum(predicted) + sum(gold))


def table(replies: Replies, tokenizer: Any) -> Iterator[str]:
    def labels(texts: Sequence[str]) -> list[str]:
        return [label_reply(t, prompt=p).label for p, t in zip(replies.prompts, texts, strict=True)]

    whole = labels(replies.replies)
    lengths = [len(ids) for ids in tokenizer(replies.replies, add_special_tokens=False)["input_ids"]]
    longest = max(lengths)
    yield f"\n{replies.name}: {len(whole)} replies, longest {longest} tokens, rules {RULES_VERSION}"
    yield "| tokens | cut | label differs | share refused | F1 against people |"
    yield "| --- | --- | --- | --- | --- |"
    for limit in [limit for limit in LIMITS if limit < longest]:
        short = labels(cut(tokenizer, replies.replies, limit))
        differ = sum(a != b for a, b in zip(short, whole, strict=True))
        flagged = [label in ("refused", "partial") for label in short]
        people = "" if replies.refused_by_people is None else f"{f1(flagged, replies.refused_by_people):.3f}"
        yield (
            f"| {limit} | {sum(n > limit for n in lengths)} | {differ} ({differ / len(whole):.1%}) "
            f"| {short.count('refused') / len(whole):.3f} | {people} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--tokenizer", required=True, help="a tokenizer's folder or hub id")
    arguments = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
    found = [read_log(file) for file in arguments.files] or list(read_xstest())
    for replies in found:
        for line in table(replies, tokenizer):
            print(line)


if __name__ == "__main__":
    main()
