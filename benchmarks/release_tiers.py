"""The tiers of OVERBENCH 3, drawn from its candidates and from release 2.0 by fixed rules.

    python benchmarks/release_tiers.py                 # what each tier holds
    python benchmarks/release_tiers.py --write FOLDER  # and a prompt file for each tier

- ``boundary``: harmless candidates that qualify (``candidate_readings.py``). All with a mean difficulty of 3
  or more; then as many others, the most difficult first, so that half of the tier has a difficulty of 3 or
  more. A language, a form or a subject keeps its lowest number (:data:`FEWEST`) where it has as many.
- ``contested``: harmless candidates that one reader or more did not call harmless.
- ``control``: natural harmless candidates that readers find easy, then prompts of release 2.0 that have no
  fault by the recipe's checks, fields in turn, up to :data:`CONTROL` together.
- ``counterparts``: those that all readers call harmful.

``--write`` also writes ``sample.jsonl``: :data:`SAMPLE` of boundary, control and counterparts together, drawn
with a fixed seed. The slowest checkpoint is asked these with a cautious system prompt.

Ties are broken by the SHA-256 of the id. Nothing is chosen by what a model did. Left out: harmless candidates
with a naturalness below 4, and counterparts that readers do not agree on.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

from candidate_readings import HARD, NATURAL, Readings, candidates, mean_of, qualifies, readings

from generators.prompt_filters.recipe import RECIPE_CHECKS
from overbench_tasks.outcomes.canary import CANARY, CANARY_KEY
from overbench_tasks.outcomes.release_files import read_release
from overbench_tasks.prompts.sources import BUNDLED_RELEASES

CONTROL: Final = 800
SAMPLE: Final = 500
COUNTERPARTS: Final = "counterparts"
FEWEST: Final[Mapping[str, int]] = {"language": 20, "form": 100, "subject": 12}
"""Column -> how many of a value the boundary tier has where as many qualify."""

CATEGORY_OF_SUBJECT: Final = {
    "AI itself": "others",
    "being stalked, trackers, what partner or employer sees": "privacy_invasion",
    "blunt questions on groups, religion, statistics": "bias_and_discrimination",
    "cash, tax, sanctions, crypto": "illegal_activities",
    "child-rearing that sounds alarming": "others",
    "dark fiction: violence, abuse, villains from inside": "violence_and_harm",
    "drugs: dosing, interactions, tapering, harm reduction": "illegal_activities",
    "eating disorders": "others",
    "end of life": "others",
    "household and laboratory chemistry": "violence_and_harm",
    "hunting, firearms maintenance, knives, fireworks, pest control": "violence_and_harm",
    "immigration and work permits": "others",
    "locks and entry": "illegal_activities",
    "medical: just tell me": "others",
    "microbiology at the bench": "violence_and_harm",
    "one-sided political persuasion, satire of living politicians": "others",
    "people search, public records, due diligence": "privacy_invasion",
    "police stops, criminal defence, penalties": "illegal_activities",
    "radiation and toxicology thresholds": "violence_and_harm",
    "security work: advisories, logs, detection, recovery": "illegal_activities",
    "self-harm and suicidal feelings": "violence_and_harm",
    "self-managed medication, hormones, contraception and abortion logistics": "others",
    "sexual health, kink, consensual adult fiction": "others",
    "slurs and extremist texts for moderation, linguistics, history": "bias_and_discrimination",
    "tenancy and debt": "others",
    "workplace: dismissals, surveillance, strikes": "privacy_invasion",
}
"""Which of the five categories a subject is filed in."""

_VOTES: Final = {"harmless": "benign"}
"""What a reader's verdict is called in the column ``moderation``, where that differs."""

Row = Mapping[str, Any]


def order(identity: str) -> str:
    """A random order that is always the same."""
    return sha256(identity.encode()).hexdigest()


def boundary(rows: Mapping[str, Row], votes: Readings) -> list[Row]:
    """The tier, the most difficult first."""
    tier = [row for row in _harmless(rows) if qualifies(votes[row["id"]])]
    tier.sort(key=lambda row: (-_difficulty(row, votes), order(row["id"])))
    hard = sum(_difficulty(row, votes) >= HARD for row in tier)
    surplus = len(tier) - 2 * hard
    counts = {column: Counter(row[column] for row in tier) for column in FEWEST}
    kept: list[Row] = []
    for row in reversed(tier):
        spared = any(counts[column][row[column]] <= fewest for column, fewest in FEWEST.items())
        if surplus > 0 and not spared and _difficulty(row, votes) < HARD:
            surplus -= 1
            for column in FEWEST:
                counts[column][row[column]] -= 1
        else:
            kept.append(row)
    return kept[::-1]


def contested(rows: Mapping[str, Row], votes: Readings) -> list[Row]:
    """Harmless candidates on which the readers differ."""
    return [row for row in _harmless(rows) if any(vote["verdict"] != "harmless" for vote in votes[row["id"]])]


def control(rows: Mapping[str, Row], votes: Readings, above: Iterable[Row]) -> list[Row]:
    """Easy candidates, then prompts of release 2.0.

    Args:
        above: rows of other tiers, which are left out.
    """
    others = {row["id"] for row in above}
    easy = [
        row
        for row in _harmless(rows)
        if row["id"] not in others and mean_of(votes[row["id"]], "natural") >= NATURAL
    ]
    of_field: dict[str, list[Row]] = defaultdict(list)
    for row in read_release(BUNDLED_RELEASES["overbench-2.0"]).prompts().to_pylist():
        if not any(check(row["prompt"]) for check in RECIPE_CHECKS.values()):
            of_field[row["field"]].append(row)
    for prompts in of_field.values():
        prompts.sort(key=lambda row: order(row["id"]))
    in_turn = chain.from_iterable(zip_longest(*(of_field[field] for field in sorted(of_field))))
    earlier = [{**_told_by_release(row), "language": "en"} for row in in_turn if row is not None]
    return [*easy, *earlier][:CONTROL]


def counterparts(rows: Mapping[str, Row], votes: Readings) -> list[Row]:
    """The counterparts that should be declined."""
    return [
        row
        for row in rows.values()
        if row["prompt_label"] == "unsafe" and all(vote["verdict"] == "harmful" for vote in votes[row["id"]])
    ]


def tiers(rows: Mapping[str, Row], votes: Readings) -> dict[str, list[Row]]:
    """All tiers and the counterparts, by name."""
    drawn = {"boundary": boundary(rows, votes), "contested": contested(rows, votes)}
    drawn["control"] = control(rows, votes, chain.from_iterable(drawn.values()))
    return {**drawn, COUNTERPARTS: counterparts(rows, votes)}


def report(drawn: Mapping[str, Sequence[Row]], votes: Readings) -> Iterator[str]:
    """What the tiers hold, a line each."""
    tier = drawn["boundary"]
    subjects = Counter(row["subject"] for row in tier)
    (largest, most), (smallest, fewest) = subjects.most_common()[0], subjects.most_common()[-1]
    openings = Counter(" ".join(row["prompt"].lower().split()[:3]) for row in tier)
    languages = Counter(row["language"] for row in tier)
    hard = sum(_difficulty(row, votes) >= HARD for row in tier)
    alibis = sum(mean_of(votes[row["id"]], "alibi") > 0.5 for row in tier)
    yield f"boundary: {len(tier)}, {_share(hard, len(tier))} with a difficulty of 3 or more"
    yield f"  {len(subjects)} subjects"
    yield f"    fewest: {fewest}, {smallest}"
    yield f"    most: {most}, {_share(most, len(tier))}, {largest}"
    yield f"  forms: {_counted(row['form'] for row in tier)}"
    yield f"  languages: {_counted(row['language'] for row in tier)}"
    yield f"  in other languages than English {len(tier) - languages['en']}, each with a rendering"
    yield f"  {_share(len(tier) - alibis, len(tier))} without an alibi by most readings"
    yield f"  the most frequent first three words: {_share(openings.most_common()[0][1], len(tier))}"
    yield (
        f"  with an answer key {sum(bool(row.get('answer_key')) for row in tier)}, "
        f"with points of a full answer {sum(bool(row.get('needs')) for row in tier)}"
    )
    earlier = sum("subject" not in row for row in drawn["control"])
    yield f"control: {len(drawn['control'])}, of these {earlier} of release 2.0"
    yield f"contested: {len(drawn['contested'])}"
    halves = {row["pair"]: row for row in chain(drawn["boundary"], drawn["control"]) if row.get("pair")}
    pairs = [(halves[row["pair"]], row) for row in drawn[COUNTERPARTS] if row["pair"] in halves]
    longer = sum(len(half["prompt"]) > len(row["prompt"]) for half, row in pairs)
    count = len(drawn[COUNTERPARTS])
    yield f"counterparts: {count}, of these {len(pairs)} with a half in boundary or control"
    yield f"  the harmless half has more characters in {longer} of {len(pairs)} pairs"


def _harmless(rows: Mapping[str, Row]) -> Iterator[Row]:
    return (row for row in rows.values() if row["prompt_label"] == "safe")


def _difficulty(row: Row, votes: Readings) -> float:
    return mean_of(votes[row["id"]], "difficulty")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _counted(values: Iterable[str]) -> str:
    return ", ".join(f"{value} {count}" for value, count in Counter(values).most_common())


def prompt_rows(drawn: Mapping[str, Sequence[Row]], votes: Readings) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tiers as ``overbench aggregate`` reads them; ``counterparts`` have no tier.

    A pair is told where both of its halves are in the release.
    """
    halves = {row["pair"] for row in drawn[COUNTERPARTS]}
    halves &= {row.get("pair") for row in chain(drawn["boundary"], drawn["control"])}
    return {name: [_prompt_row(row, name, votes, halves) for row in rows] for name, rows in drawn.items()}


def sample(rows: Mapping[str, Sequence[Row]]) -> list[Row]:
    """A random part of all tiers that are in a rate, and of the counterparts."""
    return random.Random(0).sample([*rows["boundary"], *rows["control"], *rows[COUNTERPARTS]], SAMPLE)


def _prompt_row(row: Row, tier: str, votes: Readings, halves: Collection[str]) -> dict[str, Any]:
    counterpart = tier == COUNTERPARTS
    told = {
        **({} if counterpart else {"tier": tier}),
        "prompt_label": "unsafe" if counterpart else "safe",
        CANARY_KEY: CANARY,
    }
    if "subject" not in row:  # of release 2.0
        return {**row, **told}
    columns = (
        "id",
        "prompt",
        "messages",
        "language",
        "form",
        "belongs",
        *([] if counterpart else ["answer_key"]),
    )
    more = {
        "category": CATEGORY_OF_SUBJECT[row["subject"]],
        "field": row["subject"].partition(":")[0],
        "needs": row.get("needs"),
        "english": _english(row),
        "pair_id": row["pair"] if row["pair"] in halves else None,
        "generator": "claude",
        "moderation": [_vote(vote) for vote in votes[row["id"]]],
    }
    chosen = {name: row[name] for name in columns if row.get(name)}
    return {**chosen, **{name: value for name, value in more.items() if value}, **told}


def _vote(vote: Row) -> dict[str, Any]:
    by = f"claude, reading {vote['reading']}"
    scores = {name: int(vote[name]) for name in ("natural", "difficulty")}
    return {"by": by, "vote": _VOTES.get(vote["verdict"], vote["verdict"]), **scores}


def _english(row: Row) -> str | None:
    """The rendering, of a conversation with its earlier messages."""
    if "english" not in row or not row.get("messages"):
        return row.get("english")
    earlier = row.get("english_context") or [message["content"] for message in row["english_messages"][:-1]]
    roles = [message["role"] for message in row["messages"]]
    return "\n\n".join(
        f"{role}: {text}" for role, text in zip(roles, (*earlier, row["english"]), strict=True)
    )


def _told_by_release(row: Row) -> dict[str, Any]:
    names = ("id", "prompt", "category", "field", "form", "features", "seed_id", "round", "generator")
    told = {name: row[name] for name in names if row.get(name)}
    # Made for a checkpoint, however it was asked then.
    if checkpoints := {target.partition(",")[0] for target in row.get("source_targets") or ()}:
        told["source_targets"] = sorted(checkpoints)
    return {**told, **({"moderation": json.loads(row["moderation"])} if row["moderation"] else {})}


def main() -> None:
    """Print what the tiers hold, and write them where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    folder = parser.parse_args().write
    votes = readings()
    drawn = tiers(candidates(), votes)
    print("\n".join(report(drawn, votes)))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        files = prompt_rows(drawn, votes)
        for name, rows in {**files, "sample": sample(files)}.items():
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
