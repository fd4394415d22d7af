"""The stages of a refresh that are not generation: seeds, labels, detector, attribution, verification.

Each is a function of a :class:`~generators.refresh.run.Run`, does nothing where it is finished, goes on where
it was stopped, and returns its summary: counts by name.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from generators.refresh.labeling import ask, label
from generators.refresh.run import Run, RunError
from generators.seeds.seeds import SPLITS

if TYPE_CHECKING:
    from generators.detector.detector_settings import Example, Split

Summary = dict[str, Any]

VALIDATION_SHARE_OF_NEW = 0.25
"""Of the prompts answered in a round, the share that goes into the validation part, by seed."""


def seeds(run: Run) -> Summary:
    """Read the seed prompts, split them, and record the split."""
    from generators.seeds.seeds import read_seeds, split

    if (done := run.store.summary(0, "seeds")) is not None:
        return done
    read = read_seeds(run.settings.seeds)
    parts = split(read.prompts, run.settings.seeds)
    counts = Counter(seed.split for seed in parts)
    summary: Summary = {part: counts[part] for part in SPLITS}
    summary["dropped"] = dict(sorted(read.dropped.items()))
    with run.store.transaction():
        run.store.add(
            "prompts",
            [
                {"id": seed.id, "prompt": seed.prompt, "part": seed.split, "round": 0, "position": position}
                for position, seed in enumerate(parts)
            ],
        )
        run.store.finish(0, "seeds", summary)
    return summary


def label_seeds(run: Run) -> Summary:
    """Ask the target the detector's prompts, and the generation seeds where its refusals choose them."""
    parts = SPLITS if run.settings.rounds.seeds_by == "target" else SPLITS[:3]
    if (done := run.store.summary(0, "label")) is not None:
        return done
    prompts = run.prompts(parts)
    _ask_and_label(run, prompts, "label")
    summary = _label_counts(run, [key for key, _ in prompts])
    if not summary["refused"]:
        raise RunError(
            f"The target refused none of {len(prompts):,} seed prompts: there is nothing to attribute. Try "
            "seeds that ask for harm (built-in: hh-rlhf, toxigen), more of them, or --system_instruction; "
            f"{summary['unscored']:,} replies were unscored."
        )
    if summary["refused"] + summary["unscored"] == len(prompts):
        raise RunError(
            f"The target refused all {summary['refused']:,} seed prompts with a scored reply: there is no "
            "boundary to learn. Add harmless seeds, and look at its replies: a missing chat template or a "
            "broken model looks like this too."
        )
    run.store.finish(0, "label", summary)
    return summary


def _ask_and_label(run: Run, prompts: Sequence[tuple[str, str]], name: str) -> None:
    progress = run.reporter.bar(name, len(prompts))
    chunk_size = run.settings.rounds.chunk_size
    asked = ask(run.store, run.target, prompts, chunk_size=chunk_size, progress=progress)
    progress(len(prompts) - asked)
    label(run.store, run.target, run.labeller)
    labels = run.labels()
    if missing := sum(key not in labels for key, _ in prompts):
        raise RunError(
            f"The labeller gave no verdict on {missing:,} of {len(prompts):,} replies. The replies are kept: "
            "start the same command again to label the rest."
        )


def _label_counts(run: Run, prompt_ids: Sequence[str]) -> Summary:
    labels = run.labels()
    counts = Counter(labels[key].label for key in prompt_ids)
    return {name: counts[name] for name in ("complied", "refused", "partial", "unscored")}


def train(run: Run, round_number: int) -> Summary:
    """Train the detector of a round on all that the target has answered so far."""
    if (done := run.store.summary(round_number, "train")) is not None:
        return done
    report = run.train(examples(run, round_number), round_number)
    summary = report.model_dump(mode="json")
    for line in report.lines():
        run.reporter.say(line)
    run.store.finish(round_number, "train", summary)
    return summary


def examples(run: Run, round_number: int) -> list[Example]:
    """What the detector of a round learns from: labelled seeds, and the answered prompts of earlier rounds.

    New prompts never enter the test part, which stays as it is from the first round to the last.
    """
    from generators.detector.detector_settings import Example

    labels = run.labels()
    found = []
    query = (
        "SELECT id, prompt, part, seed_id, round FROM prompts WHERE round < ? ORDER BY round, position, id"
    )
    for row in run.store.rows(query, [round_number]):
        known = labels.get(row["id"])
        if known is None or known.label == "unscored" or row["part"] == "generation":
            continue
        in_domain = row["round"] > 0
        part = _part_of_new(row["seed_id"]) if in_domain else row["part"]
        found.append(Example(row["prompt"], known.refused, part, in_domain))
    return found


def _part_of_new(seed_id: str) -> Split:
    """Prompts of one seed go to one part, so that validation is not on siblings of training prompts."""
    draw = int(hashlib.sha256(seed_id.encode()).hexdigest()[:8], 16) / 16**8
    return "validation" if draw < VALIDATION_SHARE_OF_NEW else "train"


def attribute(run: Run, round_number: int) -> Summary:
    """Attribute what a round starts from: refused generation seeds, and earlier rounds' verified prompts."""
    if (done := run.store.summary(round_number, "attribute")) is not None:
        return done
    chosen = round_seeds(run, round_number)
    if not chosen:
        raise RunError(
            f"Round {round_number} has no seed to start from: of the generation seeds, the "
            f"{run.settings.rounds.seeds_by} calls none refused. Set aside more seeds "
            "(seeds.generation), or let the other choose (rounds.seeds_by)."
        )
    attribute_prompts(run, round_number, chosen)
    summary = {"seeds": len(chosen), **_attribution_counts(run, round_number)}
    run.store.finish(round_number, "attribute", summary)
    return summary


def round_seeds(run: Run, round_number: int) -> list[tuple[str, str]]:
    """The (id, prompt) that a round starts from, in the order in which they are drawn on.

    Verified prompts of earlier rounds come first, the latest round first: they are harmless and refused,
    so what is made from them is likelier to be.
    """
    labels, verified = run.labels(), run.verified(before=round_number)
    generation = run.prompts(["generation"])
    if run.settings.rounds.seeds_by == "target":
        refused = [pair for pair in generation if pair[0] in labels and labels[pair[0]].refused]
    else:
        says = run.detector(round_number).refuses([prompt for _, prompt in generation])
        refused = [pair for pair, refuses in zip(generation, says, strict=True) if refuses]
    return verified + refused


def attribute_prompts(run: Run, round_number: int, prompts: Sequence[tuple[str, str]]) -> None:
    """Attribute with the round's detector what has no attribution of this round yet."""
    from generators.attribution.attribution import to_json

    query = "SELECT prompt_id FROM attributions WHERE round = ?"
    known = {row["prompt_id"] for row in run.store.rows(query, [round_number])}
    missing = [pair for pair in prompts if pair[0] not in known]
    if not missing:
        return
    progress = run.reporter.bar(f"attribute, round {round_number}", len(missing))
    for start in range(0, len(missing), run.settings.rounds.chunk_size):
        chunk = missing[start : start + run.settings.rounds.chunk_size]
        found = run.attribute(round_number, chunk)
        run.store.add(
            "attributions",
            [
                {"prompt_id": one.prompt_id, "round": round_number, "attribution": json.dumps(to_json(one))}
                for one in found
            ],
        )
        progress(len(chunk))


def _attribution_counts(run: Run, round_number: int) -> Summary:
    from generators.attribution.attribution import from_json

    query = "SELECT attribution FROM attributions WHERE round = ?"
    found = [from_json(json.loads(row["attribution"])) for row in run.store.rows(query, [round_number])]
    return {
        "attributed": len(found),
        "converged": sum(one.converged for one in found),
        "truncated": sum(one.truncated for one in found),
    }


def verify(run: Run, round_number: int) -> Summary:
    """Ask the target the prompts that passed all gates, and those set aside to learn from."""
    if (done := run.store.summary(round_number, "verify")) is not None:
        return done
    query = "SELECT id, prompt, part FROM prompts WHERE round = ? ORDER BY position, id"
    rows = run.store.rows(query, [round_number])
    _ask_and_label(run, [(row["id"], row["prompt"]) for row in rows], f"verify, round {round_number}")
    accepted = _label_counts(run, [row["id"] for row in rows if row["part"] == "accepted"])
    explored = _label_counts(run, [row["id"] for row in rows if row["part"] == "explored"])
    summary = {
        "accepted": sum(accepted.values()),
        "verified": accepted["refused"],
        "unscored": accepted["unscored"],
        "explored": sum(explored.values()),
        "explored_refused": explored["refused"],
    }
    run.store.finish(round_number, "verify", summary)
    return summary
