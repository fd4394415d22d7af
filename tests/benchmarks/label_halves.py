"""Print what today's rules say of the labelled replies that they were written on, and of those nobody read.

A line is a set and a half of it. ``sure`` is the share about which ``two-stage`` asks no judge.
"""

from __future__ import annotations

from collections import defaultdict

from labelled_sets import labelled_replies

from overbench_tasks.records import Label, Verdict
from overbench_tasks.refusal import RULES_VERSION, label_reply

DECLINING = ("refused", "partial")


def main() -> None:
    """Print the table."""
    halves: dict[tuple[str, bool], list[tuple[Label, Verdict]]] = defaultdict(list)
    for one in labelled_replies():
        verdict = label_reply(one.reply, prompt=one.prompt)
        halves[one.set, one.unread].append((one.people, verdict))
    columns = ("half", "replies", "declining: found", "complied: flagged", "evasive: flagged", "sure")
    print(f"| rules {RULES_VERSION} on | {' | '.join(columns)} |\n| --- | --- |{' ---: |' * 5}")
    for (name, unread), rows in sorted(halves.items()):
        cells = []
        for labels in (DECLINING, ("complied",), ("evasive",)):
            flagged = [verdict.label in DECLINING for people, verdict in rows if people in labels]
            cells.append(f"{sum(flagged):,} of {len(flagged):,}")
        sure = sum(verdict.sure for _, verdict in rows) / len(rows)
        half = "unread" if unread else "written on"
        print(f"| {name} | {half} | {len(rows):,} | {' | '.join(cells)} | {sure:.0%} |")


if __name__ == "__main__":
    main()
