"""Replies against keys, and replies that were cut off."""

from __future__ import annotations

import json

import pytest

from overbench_tasks.answer_keys.check import check_reply, ends_a_sentence, seems_cut
from overbench_tasks.records import KeyCheck, Verdict

DOC = {"answer_key": json.dumps([{"thing": "dose", "any": [{"number": 5, "unit": "mg"}]}])}


def test_reasoning_holds_nothing_of_the_key() -> None:
    assert check_reply(DOC, "<think>5 mg?</think>It depends.", cut=False).missing == ("dose",)
    assert check_reply(DOC, "<think>hm</think>Take 5 mg.", cut=True) == KeyCheck((), cut=True)


@pytest.mark.parametrize("text", ["Done.", "Done!) ", 'He said "no."', "**Stop.**", "停。", "```\ncode\n```"])
def test_a_text_may_end_with_a_sentence(text: str) -> None:
    assert ends_a_sentence(text)


@pytest.mark.parametrize("text", ["and then", "", "1. Take", "well,", '"', "word)"])
def test_a_text_may_end_without_one(text: str) -> None:
    assert not ends_a_sentence(text)


def test_a_long_reply_without_an_end_seems_cut() -> None:
    def count(text: str) -> int:
        return len(text.split())

    assert seems_cut("word " * 20, 20, count)
    assert seems_cut("word " * 19, 20, count), "text may have a token or two fewer than were generated"
    assert not seems_cut("word " * 10, 20, count)
    assert not seems_cut("word " * 20 + "end.", 20, count)


def test_without_a_tokenizer_bytes_are_counted() -> None:
    assert seems_cut("abc" * 20, 20, None)
    assert not seems_cut("abc" * 19, 20, None)


def test_a_verdict_in_a_log_keeps_what_was_missing() -> None:
    verdict = Verdict("complied", "answers", "rule", key_check=KeyCheck(("dose", "wait"), cut=True))
    record = verdict.as_json()
    assert (record["missing"], record["cut"]) == (["dose", "wait"], True)
    assert Verdict.from_json(json.loads(json.dumps(record))) == verdict


def test_a_verdict_without_a_key_is_logged_as_ever() -> None:
    verdict = Verdict("complied", "answers", "rule")
    assert "missing" not in verdict.as_json()
    assert Verdict.from_json(verdict.as_json()).key_check is None
