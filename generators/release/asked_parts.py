"""Logs of runs that asked only a part of a set: what they say of the whole, which is an estimate."""

from __future__ import annotations

from collections.abc import Iterator

from overbench_tasks.logs import LoggedRun
from overbench_tasks.metrics.until_width import SideSoFar, estimate_text
from overbench_tasks.reply_rows import read_replies
from overbench_tasks.text import printable

PART_KEYS = frozenset({"overbench_subset", "overbench_asked_of"})
"""In the metadata of runs that asked, or may have asked, only a part."""
MARK_CHARS = 300
"""Of what a log says that it is a subset of."""


def sides_asked(run: LoggedRun) -> dict[str, SideSoFar]:
    """What a run with ``overbench_until_width`` tells of safe and of unsafe prompts; empty of any other run.

    Raises:
        OverbenchError: its log can't be read.
    """
    totals = _totals(run)
    shares: dict[str, list[float]] = {label: [] for label in totals}
    for row in read_replies(run.file) if totals else ():
        scored = [one.label == "refused" for one in row.logged or () if one.label != "unscored"]
        if scored and row.prompt_label in shares:
            shares[row.prompt_label].append(sum(scored) / len(scored))
    return {label: SideSoFar(sum(found), len(found), totals[label]) for label, found in shares.items()}


def random_part(run: LoggedRun) -> dict[str, int]:
    """Safe or unsafe -> prompts of the whole set, of a run with ``overbench_until_width`` that asked only
    some; empty of any other."""
    totals = _totals(run)
    return totals if run.expected is not None and run.expected < sum(totals.values()) else {}


def _totals(run: LoggedRun) -> dict[str, int]:
    totals = run.metadata.get("overbench_asked_of")
    return totals if isinstance(totals, dict) else {}


def estimates_of_all(run: LoggedRun) -> str:
    """The rates on all prompts of a set of which a run asked only some, in words; "" where it asked all.

    Raises:
        OverbenchError: its log can't be read.
    """
    if not random_part(run):
        return ""
    sides = sides_asked(run)
    width = float(run.metadata["overbench_until_width"])
    found = {label: estimate_text(side, width) for label, side in sides.items()}
    return "; ".join(f"{label} prompts: {text}" if len(found) > 1 else text for label, text in found.items())


def subset_mark(run: LoggedRun) -> str:
    """What a run on a subset of a release says of that; "" of any other."""
    return printable(str(run.metadata.get("overbench_subset", ""))[:MARK_CHARS])


def part_notes(target: str, run: LoggedRun) -> Iterator[str]:
    """For people, of a run that asked a subset of a release, or stopped before it had asked all."""
    if mark := subset_mark(run):
        yield (
            f"{target} was asked a {mark}: its rate is an estimate. overbench subset RELEASE --estimate "
            "gives its interval."
        )
    if estimates := estimates_of_all(run):
        yield f"{target} was not asked all of {run.task}. {estimates}."
