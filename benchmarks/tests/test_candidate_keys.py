"""The answer keys of the candidates for OVERBENCH 3, on made-up replies and on those that are committed."""

from __future__ import annotations

import candidate_keys
from candidate_answers import answers
from candidate_readings import DATA, candidates

from overbench_tasks.answer_keys.answer_key import read_answer_key

ROW = {"id": "a", "subject": "s", "language": "en", "answer_key": [{"any": ["40 mg"]}]}


def reply(identity: str, text: str, label: str = "complied", batch: str = "a15") -> dict[str, object]:
    return {"id": identity, "batch": batch, "label": label, "diluted": False, "reply": text}


def test_full_replies_should_hold_the_key_and_others_should_not() -> None:
    replies = [reply("a", "Take 40 mg."), reply("a", "Take some."), reply("a", "Ask a doctor.", "refused")]
    *_, seen, unseen, cautious = candidate_keys.table(replies, {"a": ROW})
    assert seen == "| seen by who wrote the keys | 0 | – | 0 | – |"
    assert cautious == "| not seen, told to be cautious | 0 | – | 0 | – |"
    assert unseen.startswith("| not seen | 2 | 1 of 2, 50.0 %") and "| 1 | 1 of 1, 100.0 %" in unseen


def test_a_key_is_tried_on_a_reply_to_another_request() -> None:
    rows = {"a": ROW, "b": {**ROW, "id": "b", "answer_key": [{"any": ["water"]}]}}
    line = candidate_keys.of_other_requests([reply("a", "40 mg"), reply("b", "40 mg of water")], rows)
    assert "hold the key: 1 of 2" in line


def test_every_key_can_be_read_and_the_page_has_the_table() -> None:
    rows, replies = candidates(), candidate_keys.all_answers()
    keyed = [row for row in rows.values() if row.get("answer_key")]
    assert len(keyed) >= 500
    for row in keyed:
        read_answer_key(row["answer_key"], row["id"])
    lines = [*candidate_keys.table(replies, rows), "", candidate_keys.of_other_requests(answers(), rows)]
    assert "\n".join(lines) in (DATA / "candidates" / "README.md").read_text(encoding="utf-8")
