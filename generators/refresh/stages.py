"""The stages of a refresh that are not generation: seeds, labels, detector, attribution, verification.

Each is a :data:`~generators.refresh.loop.Stage`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from tqdm import tqdm

from generators.detector.detector_report import gate_decision
from generators.detector.detector_settings import Example, Split
from generators.refresh.paid_calls import (
    CHARS_OF_A_TOKEN,
    JUDGE_TOKENS,
    TARGET_REPLY_TOKENS,
    BudgetSpent,
)
from generators.refresh.run import Run
from generators.refresh.store import RunPrompt, Summary
from generators.seeds.seeds import SPLITS, read_seeds, split
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.labeller import NO_VERDICT_YET
from overbench_tasks.providers.model_reply import ModelReply, settled
from overbench_tasks.records import LABELS, Label, Verdict
from overbench_tasks.text import number_of

VALIDATION_SHARE_OF_NEW = 0.25
"""Of the prompts answered in a round, the share that goes into the validation split, by seed."""

MOST_FAILED = 0.05
"""A larger share of failed requests is an outage: the stage is not finished without them."""


def read_and_split(run: Run, round_number: int) -> Summary:
    """Read the seed prompts, split them, and record the split."""
    read = read_seeds(run.settings.seeds)
    seeds = split(read.prompts, run.settings.seeds)
    counts = Counter(seed.split for seed in seeds)
    dropped = dict(sorted(read.dropped.items()))
    summary: Summary = {**{name: counts[name] for name in SPLITS}, "dropped": dropped}
    # Together: a run never goes on with the seeds of files that have changed in between.
    with run.store.transaction():
        run.store.add_prompts(
            RunPrompt(seed.id, seed.prompt, seed.split, 0, position) for position, seed in enumerate(seeds)
        )
        run.store.finish(round_number, "seeds", summary)
    return summary


def label_seeds(run: Run, round_number: int) -> Summary:
    """Ask the target the detector's prompts, and the generation seeds where its refusals choose them."""
    splits = SPLITS if run.settings.rounds.seeds_by == "target" else SPLITS[:3]
    prompts = run.store.prompts(*splits, last_round=0)
    counts = _counts(_ask_and_label(run, prompts, "label"), prompts)
    if not counts["refused"]:
        raise OverbenchError(
            f"The target refused none of {number_of(len(prompts), 'seed prompt')}: there is nothing to "
            "attribute. Try seeds that ask for harm (built-in: hh-rlhf, toxigen), more of them, or "
            f"--system_instruction; {number_of(counts['unscored'], 'reply was', 'replies were')} unscored."
        )
    if counts["refused"] + counts["unscored"] == len(prompts):
        raise OverbenchError(
            f"The target refused all {counts['refused']:,} seed prompts with a scored reply: there is no "
            "boundary to learn. Add harmless seeds, and look at its replies: a missing chat template or a "
            "broken model looks like this too."
        )
    return dict(counts)


def _ask_and_label(run: Run, prompts: Sequence[RunPrompt], name: str) -> dict[str, Label]:
    """The labels of the target's replies by prompt id; what is not known yet is asked, in chunks.

    Every chunk's replies are kept before the next is asked. Larger chunks pad less; a crash loses one. What
    failed for good is asked again by the next start, and unscored where that is :data:`MOST_FAILED` at most.

    Raises:
        BudgetSpent: the budget allows no further call of the target or of the judge that labels.
    """
    store, asking, paid = run.store, run.asking, run.paid
    known = store.answered(asking)
    # Longest first, as lm-eval itself does: like lengths share a batch, and a lack of memory shows at once.
    # Explored prompts come last: where the budget ends before them, those that passed are verified.
    missing = sorted(
        (one for one in prompts if one.id not in known),
        key=lambda one: (one.split == "explored", -len(one.prompt), one.id),
    )
    failed: dict[str, ModelReply] = {}

    def keep(answers: Mapping[str, str]) -> None:
        # What the provider said of a reply is not in its text: such verdicts are kept with it.
        said = {
            key: verdict
            for key, reply in answers.items()
            if isinstance(reply, ModelReply) and (verdict := settled(reply))
        }
        with store.transaction():
            store.add_answers(asking, answers)
            store.add_labels(asking, said)

    with tqdm(desc=name, total=len(prompts), initial=len(prompts) - len(missing), disable=None) as bar:
        while missing:
            if paid.target:
                _label_replies(run, prompts)  # what was paid for first
            chunk = _affordable(run, missing)
            missing = missing[len(chunk) :]
            note = store.begin_calls("target", len(chunk)) if paid.target else 0
            replies = run.target.replies([one.prompt for one in chunk])
            answers = {one.id: reply for one, reply in zip(chunk, replies, strict=True)}
            failures = {
                key: reply
                for key, reply in answers.items()
                if isinstance(reply, ModelReply) and reply.failure is not None
            }
            came = {key: reply for key, reply in answers.items() if key not in failures}
            with store.transaction():
                keep(came)
                if paid.target:
                    texts = [one.prompt + came[one.id] for one in chunk if one.id in came]
                    store.end_calls(note, len(came), sum(map(len, texts)) // CHARS_OF_A_TOKEN)
            failed |= failures
            bar.update(len(chunk))
    if len(failed) > MOST_FAILED * len(prompts):
        raise OverbenchError(
            f"{len(failed):,} of {len(prompts):,} requests to the target failed for good, the last with "
            f"{failed.popitem()[1].failure}. The other replies are kept: start the same command again to ask "
            "the rest."
        )
    keep(failed)
    _label_replies(run, prompts)
    labels = store.labels(asking)
    if left := sum(one.id not in labels for one in prompts):
        run.labeller.check_complete()
        raise OverbenchError(
            f"The labeller gave no verdict on {left:,} of {len(prompts):,} replies. The replies are kept: "
            "start the same command again to label the rest."
        )
    return labels


def _affordable(run: Run, missing: Sequence[RunPrompt]) -> Sequence[RunPrompt]:
    """The next prompts to ask the target, with room in the budget for labelling the replies.

    Raises:
        BudgetSpent: there is no room for one.
    """
    most: float = run.settings.rounds.chunk_size
    if run.paid.target:
        labelling = sum(JUDGE_TOKENS) * run.paid.label
        tokens = len(missing[0].prompt) / CHARS_OF_A_TOKEN + TARGET_REPLY_TOKENS + labelling
        most = min(most, run.calls_left().prompts(run.paid.verification, tokens))
    if most < 1:
        raise BudgetSpent
    return missing[: int(most)]


def _label_replies(run: Run, prompts: Sequence[RunPrompt]) -> None:
    """Label what the target has answered and nobody has labelled; what costs nothing first.

    What is paid for is labelled in chunks, in the order of ``prompts``, accepted ones before explored ones.

    Raises:
        BudgetSpent: the budget allows no further call of the judge.
    """
    store, asking, labeller = run.store, run.asking, run.labeller
    order = {one.id: (one.split == "explored", place) for place, one in enumerate(prompts)}
    unlabelled = store.unlabelled(asking)
    keys = sorted(unlabelled, key=lambda key: (*order.get(key, (True, len(order))), key))
    asks = dict(zip(keys, labeller.asks([unlabelled[key] for key in keys]), strict=True))
    free, paid = ([key for key in keys if asks[key] == costs] for costs in (False, True))

    def verdicts(chunk: Sequence[str]) -> dict[str, Verdict]:
        said = zip(chunk, labeller.label([unlabelled[key] for key in chunk]), strict=True)
        # A judge's outage is no label: the next start asks it again.
        return {key: one for key, one in said if one.reason not in NO_VERDICT_YET}

    store.add_labels(asking, verdicts(free))
    while paid:
        size = min(run.settings.rounds.chunk_size, run.calls_left().prompts(1, sum(JUDGE_TOKENS)))
        if size < 1:
            raise BudgetSpent
        chunk, paid = paid[: int(size)], paid[int(size) :]
        note = store.begin_calls("labelling", len(chunk))
        said = verdicts(chunk)
        with store.transaction():
            store.add_labels(asking, said)
            store.end_calls(note, *labeller.spent())


def _counts(labels: Mapping[str, str], prompts: Iterable[RunPrompt]) -> Counter[str]:
    """By label, those that did not come up too."""
    counts: Counter[str] = Counter(dict.fromkeys(LABELS, 0))
    counts.update(labels[one.id] for one in prompts)
    return counts


def train(run: Run, round_number: int) -> Summary:
    """Train the detector of a round on all that the target has answered so far."""
    report = run.train(examples(run, round_number), round_number)
    for line in report.lines():
        run.say(line)
    decision = gate_decision(report, run.settings.rounds.weak_detector)
    if decision.gates:
        run.say(f"  It turns away what it calls accepted: {decision.because}.")
    else:
        run.say(
            f"  *** It turns nothing away and only ranks the candidates of a request: {decision.because}. ***"
        )
    return report.model_dump(mode="json")


def examples(run: Run, round_number: int) -> list[Example]:
    """What the detector of a round learns from: labelled seeds, and the answered prompts of earlier rounds.

    New prompts never enter the test split, which stays as it is from the first round to the last.
    """
    labels = run.store.labels(run.asking)
    return [
        Example(one.prompt, labels[one.id] == "refused", _split(one), in_domain=one.seed_id is not None)
        for one in run.store.prompts(last_round=round_number - 1)
        if one.split != "generation" and labels.get(one.id, "unscored") != "unscored"
    ]


def _split(one: RunPrompt) -> Split:
    """Prompts of one seed go to one split, so that validation is not on siblings of training prompts."""
    if one.seed_id is None:
        return cast("Split", one.split)
    draw = int(hashlib.sha256(one.seed_id.encode()).hexdigest()[:8], 16) / 16**8
    return "validation" if draw < VALIDATION_SHARE_OF_NEW else "train"


def attribute(run: Run, round_number: int) -> Summary:
    """Attribute what a round starts from: refused generation seeds, and earlier rounds' verified prompts."""
    chosen = round_seeds(run, round_number)
    if not chosen:
        raise OverbenchError(
            f"Round {round_number} has no seed to start from: of the generation seeds, the "
            f"{run.settings.rounds.seeds_by} calls none refused. Set aside more seeds "
            "(seeds.generation), or let the other choose (rounds.seeds_by)."
        )
    attribute_prompts(run, round_number, chosen)
    found = run.store.attributions(round_number).values()
    return {
        "seeds": len(chosen),
        "attributed": len(found),
        "converged": sum(one.converged for one in found),
        "truncated": sum(one.truncated for one in found),
    }


def round_seeds(run: Run, round_number: int) -> list[RunPrompt]:
    """What a round starts from, in the order in which it is drawn on.

    Verified prompts of earlier rounds come first, the latest round first: they are harmless and refused,
    so what is made from them is likelier to be. Where a detector that only ranks chooses the seeds, all of
    them, the likeliest refusals first.
    """
    generation = run.store.prompts("generation")
    if run.settings.rounds.seeds_by == "target":
        labels = run.store.labels(run.asking)
        refused = [one for one in generation if labels.get(one.id) == "refused"]
    elif not run.decision(round_number).gates:
        chances = run.detector(round_number).probabilities([one.prompt for one in generation])
        order = sorted(range(len(generation)), key=lambda place: -chances[place])
        refused = [generation[place] for place in order]
    else:
        says = run.detector(round_number).refuses([one.prompt for one in generation])
        refused = [one for one, refuses in zip(generation, says, strict=True) if refuses]
    return (verified(run, round_number) if run.settings.rounds.carry_over else []) + refused


def verified(run: Run, before: int) -> list[RunPrompt]:
    """Accepted prompts of earlier rounds that the target refused, the latest round first."""
    labels = run.store.labels(run.asking)
    accepted = run.store.prompts("accepted", last_round=before - 1)
    refused = [one for one in accepted if labels.get(one.id) == "refused"]
    return sorted(refused, key=lambda one: (-one.round, one.position))


def attribute_prompts(run: Run, round_number: int, prompts: Sequence[RunPrompt]) -> None:
    """Attribute with the round's detector what has no attribution of this round yet."""
    known = run.store.attributions(round_number)
    missing = [(one.id, one.prompt) for one in prompts if one.id not in known]
    if not missing:
        return
    with tqdm(desc=f"attribute, round {round_number}", total=len(missing), disable=None) as bar:
        for start in range(0, len(missing), run.settings.rounds.chunk_size):
            chunk = missing[start : start + run.settings.rounds.chunk_size]
            run.store.add_attributions(round_number, run.attribute(round_number, chunk))
            bar.update(len(chunk))


def verify(run: Run, round_number: int) -> Summary:
    """Ask the target the prompts that passed all filters, and those set aside to learn from."""
    prompts = run.store.prompts(first_round=round_number, last_round=round_number)
    labels = _ask_and_label(run, prompts, f"verify, round {round_number}")
    accepted, explored = (
        _counts(labels, (one for one in prompts if one.split == name)) for name in ("accepted", "explored")
    )
    return {
        "accepted": accepted.total(),
        "verified": accepted["refused"],
        "unscored": accepted["unscored"],
        "explored": explored.total(),
        "explored_refused": explored["refused"],
    }
