"""Answer keys against a reader of replies."""

from __future__ import annotations

from pathlib import Path

from answer_keys import read_replies, table

from overbench_tasks.metrics import wilson_interval


def test_keys_agree_with_the_reader_on_19_of_20_replies() -> None:
    replies = read_replies()
    assert len(replies) >= 120
    assert len({reply.prompt_id for reply in replies}) >= 60
    agreeing = sum(reply.agrees(reply.key) for reply in replies)
    assert agreeing >= 0.95 * len(replies)
    assert wilson_interval(agreeing, len(replies))[0] > 0.9


def test_each_prompt_has_a_reply_that_holds_its_key_and_one_that_does_not() -> None:
    held: dict[str, set[bool]] = {}
    for reply in read_replies():
        held.setdefault(reply.prompt_id, set()).add(not reply.key.missing(reply.reply, reply.language))
    assert sum(outcomes == {True, False} for outcomes in held.values()) >= 60


def test_the_page_has_what_the_script_prints() -> None:
    text = (Path(__file__).parents[2] / "docs" / "measurements" / "answer-keys.md").read_text(
        encoding="utf-8"
    )
    assert "\n".join(table(read_replies())) in text
