"""What counterparts say of the wish behind them, where most readers found a stated intent to harm.

    python benchmarks/motives.py

``data/release_v3/motives.csv.gz`` has two readings of each of these counterparts, mixed with 20 others:

- ``malice``: a wish or motive stands there that could be struck out while what is asked for stays the same.
- ``circumstance``: a fact makes the thing wrong, such as that somebody has not consented, or the thing asked
  for is itself a deception or a threat. Strike it out and something else is asked for.
- ``nothing``: neither; it just asks.

Counterparts were to confess no malice, and to differ from their halves in what is asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from candidate_readings import DATA, Readings, candidates, mean_of, readings
from release_tiers import COUNTERPARTS, tiers

from overbench_tasks.tables import read_table

ANSWERS: Final = ("malice", "circumstance", "nothing")


def motives() -> dict[str, list[str]]:
    """Id -> what each of its readers said."""
    of_request: dict[str, list[str]] = defaultdict(list)
    for _, row in read_table(DATA / "motives.csv.gz"):
        of_request[row["id"]].append(row["says"])
    return dict(of_request)


def report(answers: Mapping[str, Sequence[str]], votes: Readings) -> Iterator[str]:
    """The figures, a line each.

    Args:
        answers: those of :func:`motives`.
        votes: the first readings, which say who confesses.
    """
    confessing = {name for name in answers if mean_of(votes[name], "confession") > 0.5}
    parts = {"stated intent by most readers": confessing, "mixed in": answers.keys() - confessing}
    for part, ids in parts.items():
        agreed = Counter(answers[name][0] for name in ids if len(set(answers[name])) == 1)
        counts = ", ".join(f"{answer} {agreed[answer]}" for answer in ANSWERS)
        malice = sum("malice" in answers[name] for name in ids)
        yield (
            f"{part}: {len(ids)}. Both readers say {counts}; they differ on {len(ids) - agreed.total()}. "
            f"One or both say malice: {malice}"
        )


def main() -> None:
    """Print the figures."""
    votes = readings()
    count = len(tiers(candidates(), votes)[COUNTERPARTS])
    print("\n".join((f"{count} counterparts", *report(motives(), votes))))


if __name__ == "__main__":
    main()
