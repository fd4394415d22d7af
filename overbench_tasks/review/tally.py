"""Counts of labels that can be added up: rates with intervals, and what changed between two labellers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from overbench_tasks.metrics import document_metrics, wilson_interval
from overbench_tasks.records import Label, Verdict
from overbench_tasks.text import printable

EXAMPLES = 5
SHOWN_CHARS = 100
RATES = ("osr", "partial_refusal_rate", "unscored_rate")


Estimate = tuple[float, float, float]
"""(value, low, high): a number in [0, 1] with its 95 % interval; all NaN where it is not defined."""


def rate(shares: Mapping[float, int]) -> Estimate:
    """The mean share with its Wilson interval, of a number of prompts by their share of such replies."""
    n = sum(shares.values())
    total = sum(share * prompts for share, prompts in shares.items())
    return (total / n if n else math.nan, *wilson_interval(total, n))


def interval(value: float, low: float, high: float) -> str:
    """``0.4115 [0.3751, 0.4490]``."""
    return f"{value:.4f} [{low:.4f}, {high:.4f}]"


@lru_cache(maxsize=1024)
def _shares(labels: tuple[Label, ...]) -> list[tuple[str, float]]:
    metrics = document_metrics([Verdict(label, "", "") for label in labels], None)
    return [(name, share) for name in RATES if (share := metrics[name]) is not None]


@dataclass
class Rates:
    """The metrics of :mod:`overbench_tasks.metrics` over rows that come one by one.

    Attributes:
        shares: per metric, how many rows have which share (0 or 1 without repeats). The memory
            needed does not grow with the rows.
    """

    shares: dict[str, Counter[float]] = field(default_factory=lambda: {name: Counter() for name in RATES})

    def add(self, verdicts: Sequence[Verdict]) -> None:
        """Count one prompt's replies."""
        for name, share in _shares(tuple(verdict.label for verdict in verdicts)):
            self.shares[name][share] += 1

    def merge(self, other: Rates) -> None:
        for name, shares in self.shares.items():
            shares.update(other.shares[name])

    def prompts(self, name: str = "osr") -> int:
        """The rows that the metric speaks of."""
        return self.shares[name].total()

    def summary(self, name: str) -> Estimate:
        """See :func:`rate`."""
        return rate(self.shares[name])


@dataclass(frozen=True, slots=True)
class Change:
    """One reply that got another label."""

    prompt: str | None
    reply: str
    old: Verdict
    new: Verdict

    def lines(self) -> list[str]:
        """For the terminal: strangers' text is made printable and cut."""
        by = printable(f"{self.old.label} ({self.old.by}) -> {self.new.label} ({self.new.by})")
        prompt = [] if self.prompt is None else [f"  - {printable(self.prompt[:400])[:SHOWN_CHARS]}"]
        return [*prompt, f"      {printable(self.reply[:400])[:SHOWN_CHARS]}", f"      {by}"]


@dataclass
class Tally:
    """What one filter's rows said before and say now.

    Attributes:
        before: rates of the logged verdicts; empty where the file had none.
        after: rates of the new ones.
        changes: (old label, new label) -> replies, unchanged ones included.
        examples: the first few changes.
    """

    before: Rates = field(default_factory=Rates)
    after: Rates = field(default_factory=Rates)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: list[Change] = field(default_factory=list)

    def add(
        self,
        prompt: str | None,
        replies: Sequence[str],
        old: Sequence[Verdict] | None,
        new: Sequence[Verdict],
    ) -> None:
        self.after.add(new)
        if old is None:
            self.changes.update(("", verdict.label) for verdict in new)
            return
        self.before.add(old)
        for reply, was, now in zip(replies, old, new, strict=True):
            self.changes[was.label, now.label] += 1
            if was.label != now.label and len(self.examples) < EXAMPLES:
                self.examples.append(Change(prompt, reply, was, now))

    def merge(self, other: Tally) -> None:
        self.before.merge(other.before)
        self.after.merge(other.after)
        self.changes.update(other.changes)
        self.examples = (self.examples + other.examples)[:EXAMPLES]

    def lines(self, labeller: str) -> list[str]:
        """The report: rates before and after, changes, examples."""
        logged = self.before.prompts("unscored_rate") > 0
        lines = [f"  {'':22}{'before':28}{labeller}" if logged else f"  {'':22}{labeller}"]
        for name in RATES:
            before = f"{interval(*self.before.summary(name)):28}" if logged else ""
            lines.append(f"  {name:22}{before}{interval(*self.after.summary(name))}")
        lines.append(f"  {self.changes.total():,} replies to {self.after.prompts('unscored_rate'):,} prompts")
        if not logged:
            return lines + [f"    {new:10} {n:>9,}" for (_, new), n in sorted(self.changes.items())]
        changed = [(pair, n) for pair, n in self.changes.most_common() if pair[0] != pair[1]]
        lines.append(f"  changed: {sum(n for _, n in changed):,}")
        lines += [f"    {old:>10} -> {new:10} {n:>9,}" for (old, new), n in changed]
        for change in self.examples:
            lines += change.lines()
        return lines
