"""Print how many prompts a second are attributed, beside captum one prompt at a time at 50 steps.

Run from the repository root: ``python tests/benchmarks/attribution_speed.py``. Both run on the same
machine in the same run: ours, captum, ours again, so that other work on the machine weighs on both.
captum is used as its documentation shows it. Its 50 steps are also the reference for the features.

Without ``--detector``, MiniLM is first fine-tuned on the first set of prompts (is its category violence and
harm?); without ``--prompts``, its prompts, one to six of them joined, stand for mixed lengths.
Aims: at least 3 times as many prompts a second, mean |delta| within 1 % of the difference of the
log-odds, top-3 features equal for at least 98 % of prompts.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from captum.attr import LayerIntegratedGradients

from generators.attribution.attribution import Attribution, attribute, by_word, features
from generators.attribution.attribution_settings import AttributionSettings
from generators.attribution.integrated_gradients import TokenScores
from generators.models import models
from overbench_tasks.prompts import read_prompts

CAPTUM_STEPS, SEED = 50, 0
FIRST_SET = Path(__file__).resolve().parents[1] / "data" / "first_set.jsonl"


def fine_tuned(epochs: int = 2) -> tuple[Any, Any]:
    """MiniLM that tells violence and harm from the other categories of the first set."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(SEED)
    folder = models.fetch(models.find("minilm-l6-v2"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rows = read_prompts(FIRST_SET)
    for _ in range(epochs):
        random.Random(SEED).shuffle(rows)
        for start in range(0, len(rows), 16):
            batch = rows[start : start + 16]
            tokens = tokenizer([row["prompt"] for row in batch], padding=True, return_tensors="pt")
            labels = torch.tensor([int(row["category"] == "violence_and_harm") for row in batch])
            model(**tokens, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return model.eval(), tokenizer


def mixed_lengths(count: int) -> list[str]:
    rng = random.Random(SEED)
    prompts = [row["prompt"] for row in read_prompts(FIRST_SET)]
    return [" ".join(rng.sample(prompts, rng.choice([1, 1, 1, 2, 3, 6]))) for _ in range(count)]


def prompts_of(path: Path, count: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    prompts = [json.loads(line)["prompt"] if path.suffix == ".jsonl" else line for line in lines]
    return random.Random(SEED).sample(prompts, min(count, len(prompts)))


def plain_captum(model: Any, tokenizer: Any, prompts: Sequence[str]) -> list[TokenScores]:
    """captum's documented use: one prompt, 50 steps, a baseline of pad tokens."""

    def log_odds(ids: Any, mask: Any) -> Any:
        logits = model(input_ids=ids, attention_mask=mask).logits
        return logits[:, 1] - logits[:, 0]

    method = LayerIntegratedGradients(log_odds, model.get_input_embeddings())
    results = []
    for prompt in prompts:
        tokens = tokenizer(
            prompt,
            truncation=True,
            return_tensors="pt",
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        ids, mask = tokens["input_ids"], tokens["attention_mask"]
        baseline = torch.where(tokens["special_tokens_mask"].bool(), ids, tokenizer.pad_token_id)
        scores, delta = method.attribute(
            ids,
            baselines=baseline,
            additional_forward_args=(mask,),
            n_steps=CAPTUM_STEPS,
            return_convergence_delta=True,
        )
        by_token = scores.sum(dim=-1)[0].tolist()
        offsets = tuple((int(start), int(end)) for start, end in tokens["offset_mapping"][0])
        off_by = delta.item()
        results.append(
            TokenScores(sum(by_token), 0.0, off_by, CAPTUM_STEPS, True, False, offsets, tuple(by_token))
        )
    return results


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def main() -> None:
    """Print both speeds, the deltas, and how often the features agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--detector", type=Path, help="folder of a detector")
    parser.add_argument("--prompts", type=Path, help="JSONL with a field prompt, or text, one prompt a line")
    parser.add_argument("--count", type=int, default=200, help="prompts")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if arguments.detector:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(arguments.detector)
        model = AutoModelForSequenceClassification.from_pretrained(arguments.detector).eval()
    else:
        model, tokenizer = fine_tuned()
    prompts = (
        prompts_of(arguments.prompts, arguments.count)
        if arguments.prompts
        else mixed_lengths(arguments.count)
    )
    pairs = [(str(i), prompt) for i, prompt in enumerate(prompts)]
    settings = AttributionSettings()
    attribute(model, tokenizer, pairs[:2], settings)  # the first call loads what is loaded once
    plain_captum(model, tokenizer, prompts[:1])

    ticks = [clocks()]
    ours = attribute(model, tokenizer, pairs, settings)
    ticks.append(clocks())
    theirs = plain_captum(model, tokenizer, prompts)
    ticks.append(clocks())
    attribute(model, tokenizer, pairs, settings)
    ticks.append(clocks())
    reference = [by_word(i, p, t, settings) for (i, p), t in zip(pairs, theirs, strict=True)]
    (wall_a, cpu_a), (wall_captum, cpu_captum), (wall_b, cpu_b) = (
        (after[0] - before[0], after[1] - before[1]) for before, after in pairwise(ticks)
    )
    report(ours, reference, settings, arguments.threads, [len(t.scores) for t in theirs])
    n = len(prompts)
    wall, cpu = (wall_a + wall_b) / 2, (cpu_a + cpu_b) / 2
    print(f"{'':26}{'prompts/s':>10}{'per CPU second':>16}")
    print(f"{'captum, one at a time':26}{n / wall_captum:>10.2f}{n / cpu_captum:>16.2f}")
    print(f"{'ours (mean of two runs)':26}{n / wall:>10.2f}{n / cpu:>16.2f}")
    print(f"{'ratio':26}{wall_captum / wall:>10.2f}{cpu_captum / cpu:>16.2f}")


def report(
    ours: Sequence[Attribution],
    reference: Sequence[Attribution],
    settings: AttributionSettings,
    threads: int,
    lengths: Sequence[int],
) -> None:
    """Print lengths, deltas and agreement."""
    differences = [abs(a.log_odds - a.baseline_log_odds) for a in ours]
    in_order = [features(a, settings) == features(b, settings) for a, b in zip(ours, reference, strict=True)]
    as_sets = [
        set(features(a, settings)) == set(features(b, settings)) for a, b in zip(ours, reference, strict=True)
    ]
    n = len(ours)
    print(f"{n} prompts of {min(lengths)} to {max(lengths)} tokens (mean {sum(lengths) / n:.0f}), ", end="")
    print(f"{threads} thread(s), mean |difference| {sum(differences) / n:.2f} log-odds")
    for name, results in ((f"captum, {CAPTUM_STEPS} steps", reference), ("ours", ours)):
        deltas = [abs(a.delta) for a in results]
        shares = [delta / max(d, 1e-9) for delta, d in zip(deltas, differences, strict=True)]
        print(
            f"{name:18} mean |delta| / mean |difference| {sum(deltas) / sum(differences):.3%}, "
            f"mean of |delta| / |difference| {sum(shares) / n:.3%}, largest {max(shares):.2%}"
        )
    steps = ", ".join(f"{k}: {v}" for k, v in sorted(Counter(a.steps for a in ours).items()))
    print(f"steps: prompts     {steps}; {sum(not a.converged for a in ours)} not converged")
    print(f"top-{settings.top_k} features equal in order for {sum(in_order) / n:.1%}, ", end="")
    print(f"as sets for {sum(as_sets) / n:.1%} of prompts")


if __name__ == "__main__":
    main()
