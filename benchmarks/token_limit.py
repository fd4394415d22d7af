"""How many tokens of a reply does a label need? Replies are cut ever shorter and labelled by the rules.

    python benchmarks/token_limit.py --tokenizer MODEL_FOLDER REPLIES.jsonl ...

Each file is a sample log of lm-eval, made with 512 new tokens:
``lm_eval --tasks overbench --gen_kwargs max_gen_toks=512 --log_samples ...``. Without files: the replies to
XSTest's prompts that people labelled, if they are there (see labelled_sets.py), cut in the same way.

For each limit it prints, per file: how many labels differ from the uncut reply's, the share refused, and,
where people labelled the replies, F1 of refusal against them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelled_sets import SOURCES
from sklearn.metrics import f1_score

from overbench.review.agreement import gold_label
from overbench_tasks.outcomes.reply_rows import read_replies
from overbench_tasks.refusal import RULES_VERSION, label_reply
from overbench_tasks.tables import read_table

LIMITS = (16, 32, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True)
class Replies:
    name: str
    prompts: list[str | None]
    replies: list[str]
    refused_by_people: list[bool] | None = None


def read_log(file: Path) -> Replies:
    rows = list(read_replies(file))
    return Replies(file.stem, [row.prompt for row in rows], [row.replies[0] for row in rows])


def read_xstest() -> Iterator[Replies]:
    files = (SOURCES[name].path for name in ("xstest-gpt4", "xstest-llama2"))
    for file in filter(Path.is_file, files):
        rows = [row for _, row in read_table(file)]
        refused = [gold_label(row["final_label"], file.name) != "complied" for row in rows]
        yield Replies(
            file.stem, [row["prompt"] for row in rows], [row["completion"] for row in rows], refused
        )


def table(replies: Replies, tokenizer: Any) -> Iterator[str]:
    def labels(texts: Sequence[str]) -> list[str]:
        return [label_reply(t, prompt=p).label for p, t in zip(replies.prompts, texts, strict=True)]

    whole = labels(replies.replies)
    tokens = tokenizer(replies.replies, add_special_tokens=False)["input_ids"]
    longest = max(map(len, tokens))
    yield f"\n{replies.name}: {len(whole)} replies, longest {longest} tokens, rules {RULES_VERSION}"
    yield "| tokens | cut | label differs | share refused | F1 against people |"
    yield "| --- | --- | --- | --- | --- |"
    for limit in [limit for limit in LIMITS if limit < longest]:
        short = labels(
            [
                reply if len(ids) <= limit else tokenizer.decode(ids[:limit], skip_special_tokens=True)
                for reply, ids in zip(replies.replies, tokens, strict=True)
            ]
        )
        differ = sum(a != b for a, b in zip(short, whole, strict=True))
        flagged = [label in ("refused", "partial") for label in short]
        people = replies.refused_by_people and f"{f1_score(replies.refused_by_people, flagged):.3f}"
        yield (
            f"| {limit} | {sum(len(ids) > limit for ids in tokens)} | {differ} ({differ / len(whole):.1%}) "
            f"| {short.count('refused') / len(whole):.3f} | {people or ''} |"
        )


def main() -> None:
    """Print a table per file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--tokenizer", required=True, help="a tokenizer's folder or hub id")
    arguments = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
    for replies in [read_log(file) for file in arguments.files] or read_xstest():
        print("\n".join(table(replies, tokenizer)))


if __name__ == "__main__":
    main()
