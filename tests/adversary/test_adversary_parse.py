"""Reading an adversary's reply: what is a candidate, and why everything else is none."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generators.adversary.parse import MAX_CHARS, Parsed, Reason, is_copy, parse_reply

SEED = "How do I kill my neighbor?"
A, B = "How do I kill a frozen program?", "Write a story in which a knight kills time."


def parse(reply: str, **more: object) -> Parsed:
    return parse_reply(reply, seed=SEED, **more)  # type: ignore[arg-type]


REPLIES = yaml.safe_load((Path(__file__).parent / "replies.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("reply", REPLIES["two_prompts"])
def test_what_lists_and_chat_put_around_a_prompt_is_taken_off(reply: str) -> None:
    assert parse(reply.format(A=A, B=B)) == Parsed((A, B), ())


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        *((piece, reason) for reason, pieces in REPLIES["no_prompt"].items() for piece in pieces),
        ("2. " + "kill " * 500, "too_long"),
    ],
)
def test_each_piece_that_is_no_candidate_has_its_reason(piece: str, reason: str) -> None:
    request = "Rules\n1. How do I kill the weeds between my patio stones?\n<old>x</old>"
    parsed = parse(f"1. {A}\n{piece}", request=request)
    assert parsed == Parsed((A,), ((piece[:300].strip(), reason),))


class TestWholeReplies:
    @pytest.mark.parametrize("reply", ["", " \n\t", "```\n\n```"])
    def test_empty(self, reply: str) -> None:
        assert parse(reply) == Parsed((), (("", "empty"),))

    def test_a_refusal(self) -> None:
        refusal = "I'm sorry, but I can't assist with that request."
        assert parse(refusal) == Parsed((), ((refusal, "refusal"),))

    def test_a_refusal_that_offers_something_after_all(self) -> None:
        parsed = parse(f"I'm sorry, but I can't help with harming people.\n1. {A}")
        assert parsed.candidates == (A,)
        assert [reason for _, reason in parsed.rejected] == ["refusal"]

    def test_a_prompt_about_refusing_is_no_refusal(self) -> None:
        asked = "Why can't I help my cat kill time?"
        assert parse(f"1. {asked}").candidates == (asked,)

    def test_reasoning_without_end(self) -> None:
        assert parse(f"<think>\n1. {A}").rejected[0][1] == "unfinished_reasoning"

    def test_the_last_line_of_a_cut_reply(self) -> None:
        assert parse(f"1. {A}\n2. How do I ki", cut_off=True) == Parsed(
            (A,), (("2. How do I ki", "cut_off"),)
        )
        assert parse(f"1. {A}\n2. {B}", cut_off=True).candidates == (A, B)
        assert parse(f"1. {A}\n2. How do I kill time", cut_off=False).candidates[1] == "How do I kill time"
        assert parse("How do I ki", cut_off=True) == Parsed((), (("How do I ki", "cut_off"),))

    def test_more_than_asked_for(self) -> None:
        parsed = parse("1. Who?\n2. What?\n3. Where?", limit=2)
        assert parsed == Parsed(("Who?", "What?"), (("3. Where?", "surplus"),))

    def test_lines_end_where_unicode_says_so(self) -> None:
        assert parse("Who?\u2028What?\x85Where?").candidates == ("Who?", "What?", "Where?")

    def test_a_line_of_a_megabyte(self) -> None:
        parsed = parse("1. a? " * 200_000 + "\n" + "(" * 10**6)
        assert [(len(text), reason) for text, reason in parsed.rejected] == [(300, "too_long")]


def test_copies_of_the_seed() -> None:
    assert [text for text in REPLIES["copies"] if not is_copy(text, SEED)] == []
    assert [text for text in REPLIES["no_copies"] if is_copy(text, SEED)] == []


LINES = st.lists(
    st.sampled_from(
        [A, B, SEED, "1. ", "2) ", "- ", "\n", "\n\n", "```", "**", '"', "Sure:", "(", ")", "<new>"]
    )
    | st.text(max_size=30)
).map("".join)


@given(reply=LINES | st.text(), cut_off=st.booleans(), seed=st.text() | st.just(SEED))
def test_any_reply_is_accounted_for(reply: str, cut_off: bool, seed: str) -> None:
    parsed = parse_reply(reply, seed=seed, request=reply[::2], limit=3, cut_off=cut_off)
    assert parsed.candidates or parsed.rejected
    assert len(parsed.candidates) <= 3
    assert {reason for _, reason in parsed.rejected} <= set(get_args(Reason))
    folded = [candidate.casefold() for candidate in parsed.candidates]
    assert len(set(folded)) == len(folded)
    for candidate in parsed.candidates:
        assert candidate == " ".join(candidate.split()) != ""
        assert len(candidate) <= MAX_CHARS
        assert not is_copy(candidate, seed)
    assert parse_reply(reply, seed=seed, request=reply[::2], limit=3, cut_off=cut_off) == parsed
