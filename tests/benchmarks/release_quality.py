"""Print how varied the prompts of a release are, beside those of other sets, and draw prompts to be read.

    python tests/benchmarks/release_quality.py RELEASE [--against XSTest=prompts.csv ...]
    python tests/benchmarks/release_quality.py RELEASE --sample 200 --seed 0 --out sheet.csv
    python tests/benchmarks/release_quality.py --read sheet.csv

RELEASE is a release's folder or a prompt file. The figures:

- near duplicates: the share of prompts that ``overbench aggregate`` would drop at a similarity of 0.8
- Self-BLEU (Zhu et al. 2018, "Texygen"): the mean sentence BLEU-4 of a prompt against the others of a
  seeded sample, by sacrebleu, 0 to 100; lower is more varied. It grows with the sample: compare equal ones.
- nearest neighbour: the mean cosine similarity of a prompt to the most similar other one, by embeddings
  (mean of the encoder's last layer, over tokens); lower is more varied. It grows with the set, too. Against
  another set: of each prompt to the most similar one over there, without equal texts.

The reading sheet holds id, prompt and an empty column ``benign``, and nothing that could lead its reader,
neither category nor model. Write ``yes`` or ``no``; ``--read`` reports the share of benign prompts among
those answered, and lists the rest.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from generators.near_duplicates import near_duplicates
from overbench_tasks.metrics import wilson_interval
from overbench_tasks.prompts import Row, normalised, read_prompts
from overbench_tasks.prompts.prompt_sets import source_file

THRESHOLD = 0.8
COLUMNS = ("id", "prompt", "benign")
ANSWERS = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False}

Vectors = NDArray[np.float32]
"""(texts, width), each of length one."""


def self_bleu(prompts: Sequence[str], size: int, seed: int) -> tuple[float, int]:
    """(Self-BLEU, 0 to 100; how many prompts were drawn)."""
    from sacrebleu.metrics.bleu import BLEU

    drawn = random.Random(seed).sample(prompts, min(size, len(prompts)))
    bleu = BLEU(effective_order=True)
    scores = [
        bleu.sentence_score(prompt, [*drawn[:place], *drawn[place + 1 :]]).score
        for place, prompt in enumerate(drawn)
    ]
    return sum(scores) / len(scores), len(drawn)


def embeddings(sets: Sequence[Sequence[str]], encoder: str, batch: int = 64) -> list[Vectors]:
    """The vectors of each set's texts."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from generators.detector.encoder import quiet_and_unseeded, tokenizable
    from generators.models.models import encoder_place

    folder = encoder_place(encoder)
    with quiet_and_unseeded():
        tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def of_set(prompts: Sequence[str]) -> Vectors:
        found = np.zeros((len(prompts), model.config.hidden_size), np.float32)
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))  # alike: little padding
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            texts = [tokenizable(prompts[place]) for place in places]
            inputs = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            with torch.inference_mode():
                states = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1)
            means = (states * mask).sum(1) / mask.sum(1)
            found[places] = torch.nn.functional.normalize(means, dim=1).numpy()
        return found

    return [of_set(prompts) for prompts in sets]


def nearest(vectors: Vectors, others: Vectors, skip: Iterable[tuple[int, int]] = ()) -> NDArray[np.float32]:
    """The largest cosine similarity of each vector to one of ``others``. Shape (vectors,).

    Args:
        skip: (vector, other) pairs that do not count, such as a prompt and itself.
    """
    skipped = defaultdict(list)
    for one, other in skip:
        skipped[one].append(other)
    best = np.empty(len(vectors), np.float32)
    for row, vector in enumerate(vectors):
        similar = others @ vector
        similar[skipped[row]] = -np.inf
        best[row] = similar.max()
    return best


def equal_texts(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """(place in ``one``, place in ``other``) of equal texts."""
    places = defaultdict(list)
    for place, prompt in enumerate(other):
        places[normalised(prompt)].append(place)
    return [(at, place) for at, prompt in enumerate(one) for place in places.get(normalised(prompt), ())]


def describe(name: str, prompts: Sequence[str], size: int, seed: int) -> dict[str, str]:
    """The figures of one set that need no encoder, by name, as they are printed."""
    dropped = near_duplicates([normalised(prompt) for prompt in prompts], THRESHOLD)
    bleu, drawn = self_bleu(prompts, size, seed)
    return {
        "set": name,
        "prompts": f"{len(prompts):,}",
        "near duplicates": f"{len(dropped) / len(prompts):.1%}",
        "Self-BLEU": f"{bleu:.1f} ({drawn:,} drawn)",
    }


def table(columns: Sequence[dict[str, str]]) -> str:
    """A Markdown table with a set per column and a figure per row."""
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"| --- |{' ---: |' * len(columns)}", *lines[1:]])


def report(files: dict[str, Path], args: argparse.Namespace) -> str:
    """The table of a release, the first of ``files``, and of the sets it is compared with."""
    sets = {name: [str(row["prompt"]) for row in read_prompts(file)] for name, file in files.items()}
    own = next(iter(sets))
    found = dict(zip(sets, embeddings(list(sets.values()), args.encoder), strict=True))
    columns = []
    for name, prompts in sets.items():
        column = describe(name, prompts, args.bleu_sample, args.seed)
        within = nearest(found[name], found[name], ((place, place) for place in range(len(prompts))))
        column["nearest neighbour within"] = f"{within.mean():.3f}"
        across, same = "", equal_texts(sets[own], prompts)
        if name != own:
            similar = nearest(found[own], found[name], same)
            across = f"{similar.mean():.3f} ({len(same)} texts in both)"
        columns.append(column | {f"nearest neighbour of {own} in it": across})
    return table(columns)


def write_sheet(rows: Sequence[Row], size: int, seed: int, out: Path) -> int:
    """Write a reading sheet of prompts drawn at random; returns how many.

    Raises:
        FileExistsError: there is one already, perhaps filled in.
    """
    drawn = random.Random(seed).sample(list(rows), min(size, len(rows)))
    with out.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows((row["id"], row["prompt"], "") for row in drawn)
    return len(drawn)


def reading_report(file: Path) -> str:
    """Of a sheet that was filled in: the benign share with its 95 % Wilson interval, and the other prompts.

    Raises:
        ValueError: another column layout, or an answer that is none of :data:`ANSWERS`.
    """
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        if not set(COLUMNS) <= set(reader.fieldnames or ()):
            raise ValueError(f"{file}: expected the columns {', '.join(COLUMNS)}, got {reader.fieldnames}.")
        rows = list(reader)
    answers = [(row["benign"] or "").strip().casefold() for row in rows]
    for row, answer in zip(rows, answers, strict=True):
        if answer not in ("", *ANSWERS):
            raise ValueError(
                f"{file}, id {row['id']}: expected yes or no in 'benign', got {row['benign']!r}."
            )
    rest = [row for row, answer in zip(rows, answers, strict=True) if ANSWERS.get(answer) is False]
    n = len(rows) - answers.count("")
    benign = n - len(rest)
    low, high = wilson_interval(benign, n)
    share = f"{benign / n:.1%} [{low:.1%}, {high:.1%}]" if n else "none answered"
    said = [f"benign: {benign} of {n}: {share}; {len(rows) - n} not answered"]
    return "\n".join([*said, *(f"- {row['id']}: {' '.join(row['prompt'].split())}" for row in rest)])


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got {text!r}")
    return name, Path(file)


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, write a sheet, or report on one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("release", type=Path, nargs="?")
    parser.add_argument("--against", type=_named_file, action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--encoder", default="minilm-l6-v2", help="a name of overbench models, or a folder")
    parser.add_argument("--bleu_sample", type=int, default=200, help="drawn for Self-BLEU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, help="write a reading sheet of so many prompts to --out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path, help="report on a sheet that was filled in")
    args = parser.parse_args(words)
    if args.read is not None:
        print(reading_report(args.read))
    elif args.release is None or (args.sample is None) != (args.out is None):
        parser.error("expected RELEASE, RELEASE --sample N --out FILE.csv, or --read FILE.csv")
    elif args.out is not None:
        n = write_sheet(read_prompts(source_file(str(args.release))), args.sample, args.seed, args.out)
        print(f"{n} prompts in {args.out}: write yes or no under 'benign', then --read {args.out}")
    else:
        print(report({args.release.stem: source_file(str(args.release)), **dict(args.against)}, args))


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(str(error))
