"""Do the answer keys of the candidates for OVERBENCH 3 hold for full answers, and for nothing else?

    python benchmarks/candidate_keys.py

The keys were mended with a large model's full replies of the batches up to :data:`LAST_SEEN` in sight. The
replies of later batches were seen by nobody who wrote a key. Of these, 80 are by the model with a system
prompt that tells it to be cautious and to avoid specifics (data/release_v3/large_model_cautious.jsonl.gz).
A reply is full where its reader called it complied and not diluted. Then a line has the keys on full replies
to other requests of the same subject and language, drawn at random: a key that holds for these says little.
The last line has the keys on what small checkpoints refuse or evade by the rules (data/release_v3/logs).
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from candidate_answers import answers, outcome
from candidate_readings import DATA, candidates
from shared import percent

from overbench_tasks.answer_keys.answer_key import read_answer_key
from overbench_tasks.tables import read_table

LAST_SEEN: Final = "a14"
"""Batches are called a01, a02, ..., b01, ... in their order."""
CAUTIOUS: Final = "c"
"""How the batches begin that were asked with the cautious system prompt."""
SEED: Final = 0

Row = Mapping[str, Any]


def all_answers() -> list[Row]:
    """The replies without a system prompt, and those with the cautious one."""
    return [*answers(), *(row for _, row in read_table(DATA / "large_model_cautious.jsonl.gz"))]


def holds(candidate: Row, reply: str) -> bool:
    """Whether a reply has all that the answer key of a candidate asks for."""
    key = read_answer_key(candidate["answer_key"], candidate["id"])
    return not key.missing(reply, candidate["language"])


def table(replies: Sequence[Row], rows: Mapping[str, Row]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    keyed = [reply for reply in replies if rows[reply["id"]].get("answer_key")]
    yield "| replies | full | full ones that hold the key | not full | of these without the key |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    parts = {
        "seen by who wrote the keys": [reply for reply in keyed if reply["batch"] <= LAST_SEEN],
        "not seen": [
            reply for reply in keyed if reply["batch"] > LAST_SEEN and not reply["batch"].startswith(CAUTIOUS)
        ],
        "not seen, told to be cautious": [reply for reply in keyed if reply["batch"].startswith(CAUTIOUS)],
    }
    for name, part in parts.items():
        full = [reply for reply in part if outcome(reply) == "complied"]
        others = [reply for reply in part if outcome(reply) != "complied"]
        held = sum(holds(rows[reply["id"]], reply["reply"]) for reply in full)
        missed = sum(not holds(rows[reply["id"]], reply["reply"]) for reply in others)
        shares = f"{_of(held, len(full))} | {len(others)} | {_of(missed, len(others))}"
        yield f"| {name} | {len(full)} | {shares} |"


def of_other_requests(replies: Sequence[Row], rows: Mapping[str, Row]) -> str:
    """How many keys hold for a full reply to another request."""
    draw = random.Random(SEED)
    kinds: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for reply in replies:
        if outcome(reply) == "complied":
            row = rows[reply["id"]]
            kinds[row["subject"], row["language"]].append(reply)
    held = []
    for kind in kinds.values():
        for reply in kind:
            others = [other for other in kind if other["id"] != reply["id"]]
            if others and rows[reply["id"]].get("answer_key"):
                held.append(holds(rows[reply["id"]], draw.choice(others)["reply"]))
    return f"full replies to another request of the subject that hold the key: {_of(sum(held), len(held))}"


def on_refusals(rows: Mapping[str, Row]) -> str:
    """How many replies of small checkpoints that refuse or evade by the rules lack the key."""
    lacking = []
    for log in sorted((DATA / "logs").rglob("samples_*.jsonl.gz")):
        for _, row in read_table(log):
            candidate = rows.get(row["doc"]["id"], {})
            label = json.loads(row["filtered_resps"][0][0])["label"]
            if candidate.get("answer_key") and label in ("refused", "evasive"):
                lacking.append(not holds(candidate, row["resps"][0][0]))
    return f"refusals and evasions of small checkpoints without the key: {_of(sum(lacking), len(lacking))}"


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}, {percent(part, whole)}" if whole else percent(part, whole)


def main() -> None:
    """Print the table and the lines."""
    replies, rows = all_answers(), candidates()
    lines = [*table(replies, rows), "", of_other_requests(answers(), rows), on_refusals(rows)]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
