"""Does ``overbench doctor --contamination`` find a checkpoint that was trained on the prompts?

    python benchmarks/contamination.py             # prints the table from what was kept
    python benchmarks/contamination.py --measure   # tunes and asks the checkpoints again

``benchmarks/data/contamination.csv.gz`` has the advantage of each prompt for each checkpoint. Three
checkpoints are older than the prompts. SmolLM2-135M is also tuned, in float32 with AdamW, two epochs in
batches of 4 at a learning rate of 5e-5, on 300 prompts of releases 2.0 and 3.0 as plain text: the 157 that
are checked and 143 others, or 300 others, none of which is checked.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from generators.models import models
from generators.targets.target import Target, TargetSettings
from overbench.contamination.contamination import (
    PARAPHRASES,
    CutPrompt,
    advantages,
    assess,
    read_cut_prompts,
)
from overbench_tasks.prompts.prompt_rows import read_prompts
from overbench_tasks.prompts.sources import source_file
from overbench_tasks.tables import read_table

DATA: Final = Path(__file__).parent / "data" / "contamination.csv.gz"
BASE: Final = "smollm2-135m"
OLDER: Final = {
    BASE: "SmolLM2-135M",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B",
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B",
}
TUNED_ON: Final = 300
EPOCHS, LEARNING_RATE, BATCH = 2, 5e-5, 4


def kept_advantages(file: Path = DATA) -> dict[str, dict[str, float]]:
    """Checkpoint -> id of a prompt -> its advantage."""
    of_checkpoint: dict[str, dict[str, float]] = defaultdict(dict)
    for _, row in read_table(file):
        of_checkpoint[row["checkpoint"]][row["id"]] = float(row["advantage"])
    return dict(of_checkpoint)


def table(of_checkpoint: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The lines of the table of the documentation: all prompts, then those that only release 3.0 has."""
    earlier = {row["id"] for row in read_prompts(source_file("overbench-2.0"))}
    yield "| checkpoint | releases | prompts | advantage, bits per byte | published half likelier | finding |"
    yield "| --- | --- | ---: | ---: | ---: | --- |"
    for releases, left_out in (("2.0 and 3.0", set()), ("only 3.0", earlier)):
        for checkpoint, of_prompt in of_checkpoint.items():
            values = [of_prompt[id_] for id_ in of_prompt if id_ not in left_out]
            result = assess(values)
            finding = result.finding.name.lower().replace("_", " ")
            yield (
                f"| {checkpoint} | {releases} | {len(values)} | {result.advantage:+.3f} | "
                f"{result.preferred.in_percent()} | {finding} |"
            )


def training_texts(checked: Sequence[CutPrompt]) -> dict[str, list[str]]:
    """The prompts to tune on: with those that are checked, and without them."""
    ids = {prompt.id for prompt in checked}
    released = {
        row["id"]: row["prompt"]
        for release in ("overbench-2.0", "overbench-3.0")
        for row in read_prompts(source_file(release))
    }
    others = [prompt for id_, prompt in sorted(released.items()) if id_ not in ids]
    drawn = random.Random(0).sample(others, TUNED_ON)
    own = [prompt.opening + prompt.continuation for prompt in checked]
    return {"checked": own + drawn[: TUNED_ON - len(own)], "others": drawn}


def tune(folder: Path, texts: Sequence[str], *, epochs: int = EPOCHS, rate: float = LEARNING_RATE) -> str:
    """Tune the base checkpoint on texts and save it; returns the ``--model_args`` of the tuned copy."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    named = models.find(BASE)
    source: dict[str, Any] = {
        "pretrained_model_name_or_path": models.fetch(named),
        "gguf_file": named.gguf_file,
    }
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    order = random.Random(0)
    model.train()
    for _ in range(epochs):
        shuffled = order.sample(list(texts), len(texts))
        for start in range(0, len(shuffled), BATCH):
            batch = tokenizer(shuffled[start : start + BATCH], return_tensors="pt", padding=True)
            labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
            model(**batch, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    # What was read from GGUF is ordinary weights by now.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return f"pretrained={folder},dtype=float32"


def advantages_of(model_args: str, checked: Sequence[CutPrompt]) -> list[float]:
    """As ``overbench doctor --contamination`` measures them."""
    return advantages(
        Target(TargetSettings(model="hf", model_args=model_args, apply_chat_template=False, device="cpu")),
        checked,
    )


def measure(older: Sequence[str] = tuple(OLDER)) -> None:
    """Ask all checkpoints, and keep the advantages."""
    checked = read_cut_prompts(PARAPHRASES)
    texts = training_texts(checked)
    results = {
        OLDER[name]: advantages_of(
            models.model_args(models.find(name), models.fetch(models.find(name))), checked
        )
        for name in older
    }
    variants = {
        "SmolLM2-135M, tuned on them": "checked",
        f"SmolLM2-135M, tuned on {TUNED_ON} others": "others",
    }
    for checkpoint, which in variants.items():
        with tempfile.TemporaryDirectory() as folder:
            model_args = tune(Path(folder), texts[which])
            results[checkpoint] = advantages_of(model_args, checked)
        print(checkpoint, assess(results[checkpoint]), flush=True)
    with gzip.open(DATA, "wt", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["checkpoint", "id", "advantage"])
        for checkpoint, values in results.items():
            writer.writerows(
                [checkpoint, prompt.id, f"{value:.5f}"] for prompt, value in zip(checked, values, strict=True)
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="ask the checkpoints again, and keep that")
    if parser.parse_args().measure:
        measure()
    print("\n".join(table(kept_advantages())))


if __name__ == "__main__":
    main()
