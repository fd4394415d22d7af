"""Prompts to replies to verdicts, in chunks, asking nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from generators.refresh.store import Store
from generators.targets.target import Asked
from overbench_tasks.labellers import Labeller
from overbench_tasks.records import Label

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A prompt with what the target did."""

    prompt_id: str
    label: Label

    @property
    def refused(self) -> bool:
        """As in the tasks' oversensitivity rate, ``partial`` does not count."""
        return self.label == "refused"


def ask(
    store: Store,
    target: Asked,
    prompts: Sequence[tuple[str, str]],
    *,
    chunk_size: int,
    progress: Progress = lambda done: None,
) -> int:
    """Ask the target what is not known yet; every chunk's replies are kept before the next is asked.

    Args:
        prompts: (id, prompt) pairs.
        chunk_size: prompts per call of the backend. Larger chunks pad less; a crash loses one.
        progress: called with the number of prompts just answered.

    Returns:
        how many prompts were asked now.
    """
    known = {
        row["prompt_id"]
        for row in store.rows(
            "SELECT prompt_id FROM answers WHERE target = ? AND decoding = ?", [target.name, target.decoding]
        )
    }
    # Longest first, as lm-eval itself does: like lengths share a batch, and a lack of memory shows at once.
    missing = sorted(
        ((key, prompt) for key, prompt in dict(prompts).items() if key not in known),
        key=lambda pair: (-len(pair[1]), pair[0]),
    )
    for start in range(0, len(missing), chunk_size):
        chunk = missing[start : start + chunk_size]
        replies = target.replies([prompt for _, prompt in chunk])
        store.add(
            "answers",
            (
                {"prompt_id": key, "target": target.name, "decoding": target.decoding, "reply": reply}
                for (key, _), reply in zip(chunk, replies, strict=True)
            ),
        )
        progress(len(chunk))
    return len(missing)


def label(store: Store, target: Asked, labeller: Labeller) -> None:
    """Label every reply of the target that this labeller has not labelled yet."""
    query = """
        SELECT answers.prompt_id, prompts.prompt, answers.reply FROM answers
        JOIN prompts ON prompts.id = answers.prompt_id
        WHERE target = :target AND decoding = :decoding AND NOT EXISTS (
            SELECT 1 FROM labels WHERE labels.prompt_id = answers.prompt_id AND labels.target = answers.target
            AND labels.decoding = answers.decoding AND labels.labeller = :labeller)
        ORDER BY answers.prompt_id"""
    key = {"target": target.name, "decoding": target.decoding, "labeller": labeller.name}
    rows = store.rows(query, key)
    verdicts = labeller.label([(row["prompt"], row["reply"]) for row in rows])
    store.add(
        "labels",
        (
            {
                "prompt_id": row["prompt_id"],
                **key,
                "label": verdict.label,
                "reason": verdict.reason,
                "label_by": verdict.by,
                "blocked": verdict.blocked,
            }
            for row, verdict in zip(rows, verdicts, strict=True)
            # An outage of a judge is no label: the next run asks it again.
            if verdict.reason not in ("judge_error", "judge_unparseable")
        ),
    )


def labelled(store: Store, target: Asked, labeller: Labeller) -> dict[str, Labelled]:
    """All labels of the target's replies, by prompt id."""
    query = "SELECT prompt_id, label FROM labels WHERE target = ? AND decoding = ? AND labeller = ?"
    rows = store.rows(query, [target.name, target.decoding, labeller.name])
    return {row["prompt_id"]: Labelled(row["prompt_id"], row["label"]) for row in rows}
