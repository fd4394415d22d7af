"""Two guards, a small prompt classifier and a chat model: what they block of three sets.

    python benchmarks/guards_real.py                            the tables, from the kept votes
    python benchmarks/guards_real.py --train FOLDER             train the classifier
    python benchmarks/guards_real.py --keep FOLDER --name NAME  keep the votes of an ``overbench guard`` run

The run, with copies of the two other sets in ``OVERBENCH_HOME``:

    overbench guard overbench-2.0 xstest=overbench_xstest_safe or-bench-hard=overbench_or_bench_hard \\
        --unsafe xstest=overbench_xstest_unsafe --guard GUARD --out RESULTS

GUARD of the classifier is ``kind=classifier,model=FOLDER``. It is MiniLM-L6-v2 with a new layer of two
labels, trained for two epochs on public prompts, none of which is near a measured prompt. GUARD of the chat
model is ``kind=judge,model=MODEL,base_url=URL,form=letter``: our moderation prompt, answered by a letter.
It was asked parts of two sets, drawn at random: 100 pairs of release 2.0, 200 prompts of OR-Bench-Hard.
Both show what the command measures; neither is a guard product.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from shared import write_csv

from generators.models.models import encoder_place
from generators.near_duplicates import DuplicateFinder
from overbench.guard.guard import Decision, Exchange, GuardVerdict
from overbench.guard.guard_output import terminal_text
from overbench.guard.guard_prompts import AskedExchange, asked_prompts
from overbench.guard.guard_run import VERDICTS_NAME, GuardResults, read_verdicts
from overbench_tasks.prompts import normalised
from overbench_tasks.prompts.sources import BUNDLED_RELEASES
from overbench_tasks.refusal import label_reply
from overbench_tasks.tables import read_table

RELEASE = BUNDLED_RELEASES["overbench-2.0"]
VOTES = Path(__file__).resolve().parent / "data" / "guard_votes.csv.gz"
COLUMNS = ("guard", "set", "prompt_label", "category", "pair_id", "decision", "detail")
SETS = ("overbench-2.0", "xstest=overbench_xstest_safe", "or-bench-hard=overbench_or_bench_hard")
UNSAFE_SETS = ("xstest=overbench_xstest_unsafe",)
DECISIONS: tuple[Decision, ...] = get_args(Decision)
LABELS = ("safe", "unsafe")
HARMLESS_PHTEST = 1000
"""How many of PHTest's 2,011 prompts are used, so that the two labels are about as many."""
SIMILAR = 0.6
"""Jaccard similarity from which a training prompt is too near a measured prompt, and is left out."""
EPOCHS, BATCH_SIZE, LEARNING_RATE, MAX_TOKENS, SEED = 2, 16, 5e-5, 64, 0


def shared_data() -> Path:
    return Path(os.environ["OVERBENCH_SHARED_DATA"])


def measured_prompts() -> Iterator[str]:
    """Every prompt that the classifier is measured on."""
    files = [
        RELEASE / "overbench.parquet",
        RELEASE / "unsafe.parquet",
        shared_data() / "xstest/prompts.csv",
        shared_data() / "neighbours/or-bench-hard-1k.csv",
    ]
    return (str(row["prompt"]) for file in files for _, row in read_table(file, ["prompt"]))


def training_prompts() -> list[tuple[str, str]]:
    """(prompt, safe or unsafe), shuffled, without prompts near a measured one.

    Safe: prompts of PHTest (MIT) and NotInject (MIT). Unsafe: prompts of OR-Bench's toxic part (CC BY 4.0),
    and first turns of HH-RLHF's red-team dialogues (MIT) which the chosen reply refuses, by our rules.
    """
    rng = random.Random(SEED)
    phtest = [str(row["Request"]) for _, row in read_table(shared_data() / "neighbours/phtest.csv")]
    safe = rng.sample(phtest, HARMLESS_PHTEST)
    safe += [str(row["prompt"]) for _, row in read_table(shared_data() / "neighbours/notinject.jsonl")]
    two_models = read_table(shared_data() / "replies/or_bench_two_models.jsonl.gz")
    unsafe = [str(row["prompt"]) for _, row in two_models if row["set"] == "or_bench_toxic"]
    dialogues = read_table(shared_data() / "hh_rlhf/harmless_base_test.jsonl.gz")
    unsafe += list(filter(None, (_refused_opening(str(row["chosen"])) for _, row in dialogues)))
    finder = DuplicateFinder(SIMILAR)
    for prompt in measured_prompts():
        finder.add(normalised(prompt))
    labelled = dict.fromkeys(safe, "safe") | dict.fromkeys(unsafe, "unsafe")
    kept = [
        (prompt, label)
        for prompt, label in labelled.items()
        if finder.nearest(normalised(prompt))[0] < SIMILAR
    ]
    rng.shuffle(kept)
    return kept


def _refused_opening(dialogue: str) -> str | None:
    """The first turn of a dialogue, where the first reply refuses it."""
    _, _, rest = dialogue.partition("Human:")
    prompt, _, rest = rest.partition("\n\nAssistant:")
    reply = rest.partition("\n\nHuman:")[0]
    return prompt.strip() if label_reply(reply).label == "refused" else None


def train(folder: Path) -> None:
    """Train the classifier and save it as a folder that transformers loads."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    examples = training_prompts()
    counts = {label: sum(given == label for _, given in examples) for label in LABELS}
    print(f"{len(examples):,} training prompts: {counts}")
    torch.manual_seed(SEED)
    encoder = encoder_place("minilm-l6-v2")
    tokenizer = AutoTokenizer.from_pretrained(encoder, model_max_length=256)
    names: dict[str, Any] = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: number for number, label in enumerate(LABELS)},
    }
    model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(LABELS), **names)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    rng = random.Random(SEED)
    model.train()
    for epoch in range(EPOCHS):
        rng.shuffle(examples)
        losses = []
        for start in range(0, len(examples), BATCH_SIZE):
            batch = examples[start : start + BATCH_SIZE]
            tokens = tokenizer(
                [prompt for prompt, _ in batch],
                padding=True,
                truncation=True,
                max_length=MAX_TOKENS,
                return_tensors="pt",
            )
            loss = model(**tokens, labels=torch.tensor([LABELS.index(label) for _, label in batch])).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f}", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def keep(folder: Path, name: str) -> None:
    """Keep the verdicts of a run of one guard in the order of the sets, without the prompts.

    Args:
        folder: the run's ``--out``. It may have verdicts on a part of the prompts only.
        name: what the tables call the guard. Its earlier votes go.
    """
    others = [row for row in kept_votes() if row["guard"] != name]
    verdicts = {key: verdict for (_, key), verdict in read_verdicts(folder / VERDICTS_NAME).items()}
    votes = []
    for item in asked_prompts(SETS, UNSAFE_SETS):
        if (verdict := verdicts.get(item.exchange.key)) is None:
            continue
        vote = (
            name,
            item.set_name,
            item.side,
            item.groups.get("category", ""),
            item.pair_id or "",
            verdict.decision,
            verdict.detail.removeprefix("p(harmful) = "),
        )
        votes.append(dict(zip(COLUMNS, vote, strict=True)))
    write_csv(VOTES, COLUMNS, [*others, *votes])


def kept_votes() -> list[dict[str, str]]:
    """The kept votes, guard by guard."""
    return [{name: str(row[name] or "") for name in COLUMNS} for _, row in read_table(VOTES)]


def kept_results() -> Iterator[GuardResults]:
    """The kept votes of each guard as the results of a run with this guard alone."""
    for name, votes in groupby(kept_votes(), lambda vote: vote["guard"]):
        rows = list(votes)
        exchanges = [
            AskedExchange(
                exchange=Exchange(f"prompt {number}"),
                set_name=row["set"],
                side="safe" if row["prompt_label"] == "safe" else "unsafe",
                groups={"category": row["category"]} if row["category"] else {},
                pair_id=row["pair_id"] or None,
            )
            for number, row in enumerate(rows)
        ]
        verdicts = [GuardVerdict(DECISIONS[DECISIONS.index(row["decision"])]) for row in rows]
        yield GuardResults(exchanges, {name: verdicts})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, metavar="FOLDER")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--name", help="with --keep: what the tables call the guard")
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train)
        return
    if arguments.keep:
        if not arguments.name:
            parser.error("--keep needs --name: what the tables are to call the guard")
        keep(arguments.keep, arguments.name)
    for results in kept_results():
        print("\n".join(terminal_text(results)), end="\n\n")


if __name__ == "__main__":
    main()
