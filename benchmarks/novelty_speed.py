"""Print how fast the novelty gate reads prompts, and how much memory it takes, on made-up prompts.

    python benchmarks/novelty_speed.py [PROMPTS]

100,000 where no number is given (under a minute). Each prompt is looked up, then added. The baseline, timed
in the same run on a sample, is the loop that anyone would write first: compare with every known prompt. Its
time grows with the square of their number, so the ratio at full size is that of the sample scaled up. Also
printed: the share of near duplicates that the gate finds, against that baseline.
"""

from __future__ import annotations

import random
import sys

from shared import peak_megabytes, timed

from generators.near_duplicates import core_of, jaccard, shingles_of
from generators.prompt_filters.novelty import Novelty, NoveltySettings
from overbench_tasks.prompts import normalised

SAMPLE = 3_000
FRAMES = (
    "How do I {} a {} {} in {}?",
    "What is the best way to {} my {} {}?",
    "Why do {} {} {} the {}?",
    "Can you explain how {} {} {} when {} are {}?",
    "Where can I {} {} {}?",
    "Tell me how to {} the {} {} for a {} {}.",
)


def make_prompts(count: int) -> list[str]:
    """Frames filled with made-up words, some much more frequent than others; one in five is a variant
    of an earlier prompt, with one or two words added, dropped or replaced."""
    rng = random.Random(0)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "en", "ick", "o", "ur", "ill", "eat")]
    words = sorted({"".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(20_000)})
    rng.shuffle(words)
    weights = [1 / (rank + 50) for rank in range(len(words))]
    prompts: list[str] = []
    while len(prompts) < count:
        if prompts and rng.random() < 0.2:
            text = rng.choice(prompts).split()
            if len(text) < 6:
                continue
            for _ in range(rng.randint(1, 2)):
                at = rng.randint(2, len(text) - 1)
                text[at : at + rng.randint(0, 1)] = rng.choices(words, weights, k=rng.randint(0, 1))
        else:
            frame = rng.choice(FRAMES)
            text = frame.format(*rng.choices(words, weights, k=frame.count("{}"))).split()
        prompts.append(" ".join(text))
    return prompts


def gate(prompts: list[str]) -> set[int]:
    """The prompts that repeat an earlier one."""
    novelty = Novelty(NoveltySettings())
    repeats = set()
    for number, prompt in enumerate(prompts):
        if novelty.problem(prompt) is not None:
            repeats.add(number)
        novelty.add(str(number), prompt)
    return repeats


def naive(prompts: list[str]) -> set[int]:
    """The same by the baseline."""
    threshold = NoveltySettings().threshold
    earlier: list[set[str]] = []
    repeats = set()
    for number, prompt in enumerate(prompts):
        shingles = shingles_of(core_of(normalised(prompt)))
        if any(jaccard(shingles, other) >= threshold for other in earlier):
            repeats.add(number)
        earlier.append(shingles)
    return repeats


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    prompts = make_prompts(count)
    gate(prompts[:100])  # the imports
    before = peak_megabytes()
    whole, repeats = timed(lambda: gate(prompts))
    used = peak_megabytes() - before
    print(
        f"{count:,} prompts: {whole:.1f} s, {count / whole:,.0f} prompts/s, {used:,.0f} MB more "
        f"({1000 * used / count:.2f} KB a prompt); {len(repeats):,} repeat an earlier one"
    )
    sample = prompts[:SAMPLE]
    own_sec, own = timed(lambda: gate(sample))
    naive_sec, truly = timed(lambda: naive(sample))
    scaled = naive_sec * (count / len(sample)) ** 2
    print(
        f"baseline on {len(sample):,}: {naive_sec:.1f} s, {naive_sec / own_sec:.1f} times the "
        f"gate's; at {count:,} about {scaled:,.0f} s, {scaled / whole:,.0f} times"
    )
    print(f"found {len(own & truly):,} of {len(truly):,} near duplicates, {len(own - truly)} that are none")


if __name__ == "__main__":
    main()
