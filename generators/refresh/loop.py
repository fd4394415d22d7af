"""The refresh loop: new, harmless prompts that one checkpoint refuses (Pu et al. 2025, section 3).

Read :func:`refresh` as the table of contents: each line is a stage in a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from generators.refresh import generation as waves
from generators.refresh import stages
from generators.refresh.publish import publish
from generators.refresh.run import Run
from overbench_tasks.errors import OverbenchError

STAGES = ("seeds", "label", "train", "attribute", "generate", "verify")
"""The stages of a run that can be its last, in order; those from ``train`` on are of each round."""


def refresh(run: Run, until: str | None = None) -> None:
    """Run every stage that is not finished yet, round by round, and export what there is.

    Args:
        until: the last stage to run, one of :data:`STAGES`, of the first round in which it is
            unfinished. None: all rounds.

    Raises:
        OverbenchError: of any stage; everything finished and paid for until then is kept.
    """
    if until is not None and until not in STAGES:
        raise OverbenchError(f"No stage is called {until!r}. Expected one of {', '.join(STAGES)}.")
    for number, name, stage in _schedule(run):
        finished_before = run.store.summary(number, name) is not None
        summary = stage()
        if not finished_before:
            run.reporter.say(summary_line(number, name, summary))
        if name == "verify":
            publish(run)
        if name == until and not finished_before:
            return


def _schedule(run: Run) -> Iterator[tuple[int, str, Callable[[], stages.Summary]]]:
    yield 0, "seeds", lambda: stages.seeds(run)
    yield 0, "label", lambda: stages.label_seeds(run)
    rounds = run.settings.rounds.rounds
    for number in range(1, rounds + 1):
        yield number, "train", partial(stages.train, run, number)
        yield number, "attribute", partial(stages.attribute, run, number)
        yield number, "generate", partial(waves.generate, run, number)
        yield number, "verify", partial(stages.verify, run, number)
    # What the last round taught: for whoever goes on from here, and for the report by round.
    yield rounds + 1, "train", partial(stages.train, run, rounds + 1)


def summary_line(round_number: int, stage: str, summary: Mapping[str, Any]) -> str:
    """One line on a finished stage: its counts; nested ones by name, without zeros."""
    words = []
    for name, value in summary.items():
        if isinstance(value, dict):
            words += [f"{key} {count:,}" for key, count in value.items() if count and isinstance(count, int)]
        elif isinstance(value, int):
            words.append(f"{name.replace('_', ' ')} {value:,}")
    where = f"round {round_number}, " if round_number else ""
    return f"{where}{stage}: {', '.join(words)}"
