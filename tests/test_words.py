"""Where words stand in any text, how common they are, which of them are no features."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.words import (
    LONGEST_WORD,
    NUMBER_WORDS,
    STOP_WORDS,
    exclusions,
    frequency,
    plain,
    pool_form,
    spans,
    word_parts,
    words_of,
)
from overbench_tasks.text import encodable

ANY_TEXT = st.text(st.characters(), max_size=60)
HOSTILE = "\x00\x1b[31m\u202eevil\u2069 \ud800 {{ x }} <b>\r\n\u2028"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I kill a process?", ["How", "do", "I", "kill", "a", "process"]),
        ("don't, don’t", ["don't", "don’t"]),
        ("self-harm - or rock‑climbing", ["self-harm", "or", "rock‑climbing"]),
        ("'quoted' -dash- trailing-", ["quoted", "dash", "trailing"]),
        ("snake_case", ["snake", "case"]),
        ("cafe\u0301 café", ["cafe\u0301", "café"]),
        ("ak-47 2nd", ["ak-47", "2nd"]),
        ("爆弾の作り方abc", ["爆", "弾", "の", "作", "り", "方", "abc"]),
        ("سلام می\u200cروم", ["سلام", "می\u200cروم"]),
        ("a😀b", ["a", "b"]),
        ("\x1b[31mred\x1b[0m", ["31mred", "0m"]),
        ("", []),
        (" \n\t\u3000", []),
        ("?!…", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert [text[span.start : span.end] for span in spans(text) if span.is_word] == expected
    assert words_of(text) == expected


@given(ANY_TEXT | st.just(HOSTILE))
def test_the_words_of_any_text_are_those_that_its_spans_mark(text: str) -> None:
    assert words_of(text) == [text[span.start : span.end] for span in spans(text) if span.is_word]


def test_words_are_compared_without_case_hyphens_and_possessives() -> None:
    assert word_parts("The Boss’s self‑harm, don't!") == ["the", "boss", "self", "harm", "don't"]
    assert word_parts("ﬁre snake_case 2nd") == ["fire", "snake", "case", "2nd"]


@given(ANY_TEXT | st.just(HOSTILE))
def test_words_are_compared_alike_however_they_are_written(text: str) -> None:
    parts = word_parts(encodable(text))
    assert word_parts(" ".join(parts)) == parts
    assert word_parts(encodable(text).upper()) == word_parts(encodable(text).upper().lower())


def test_marks_are_runs_between_words_without_blanks() -> None:
    text = "Why?!  (so) 😀"
    assert [text[span.start : span.end] for span in spans(text) if not span.is_word] == ["?!", "(", ")", "😀"]


@given(ANY_TEXT | st.just(HOSTILE))
def test_spans_cover_all_but_blanks_each_with_a_reason_a_frequency_and_a_form(text: str) -> None:
    text = encodable(text)
    text_spans = spans(text)
    covered = [at for s in text_spans for at in range(s.start, s.end)]
    assert covered == sorted(set(covered))
    assert all(0 <= s.start < s.end <= len(text) for s in text_spans)
    assert all(text[at].isspace() for at in set(range(len(text))) - set(covered))
    assert len(exclusions(text, text_spans)) == len(text_spans)
    for span in text_spans:
        word = text[span.start : span.end]
        assert 0 <= frequency(word) < 0.1
        assert pool_form(word, "lemma").casefold() == pool_form(word, "lemma")


@given(ANY_TEXT)
def test_encodable_keeps_length_and_makes_text_encodable(text: str) -> None:
    broken = text + "\udc80\ud83d\ude00" + text
    cleaned = encodable(broken)
    assert len(cleaned) == len(broken)
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert all(a == b for a, b in zip(broken, cleaned, strict=True) if not "\ud800" <= a <= "\udfff")


KEY = "x" * (LONGEST_WORD + 1)
STOPPED = "The dog doesn't bark, what's wrong, I’m sad, c u, we'd y'all"
COUNTED = "Buy 3 or 10,000 in the 1990s on the 2nd, twenty ak-47 and c4 1-2"
NAMED = "Ask Zorblat to kill Khloé. Xanthippe said: Wendelin met a Muslim on LSD near Kyzyl"


@pytest.mark.parametrize(
    ("why", "text", "words"),
    [
        ("stop_word", STOPPED, "The doesn't what's I’m c u we'd"),
        ("number", COUNTED, "3 10 000 1990s 2nd twenty 1-2"),
        ("name", NAMED, "Zorblat Khloé Kyzyl"),  # rare, and capitalised inside a sentence
        ("name", "How to Steal the Money from a Burglary Alarm Company", ""),  # where capitals are the rule
        ("name", "WHERE WOULD YOU HIDE A BURGLARY TOOL", ""),
        ("not_a_word", f"crack {KEY}", KEY),
        ("punctuation", "kill?! 🔫", "?! 🔫"),
    ],
)
def test_what_is_no_feature_and_why(why: str, text: str, words: str) -> None:
    text_spans = spans(text)
    reasons = zip(text_spans, exclusions(text, text_spans), strict=True)
    assert [text[span.start : span.end] for span, reason in reasons if reason == why] == words.split()


def test_stop_words_hold_no_trigger() -> None:
    triggers = ["kill", "fire", "cry", "move", "bill", "find", "bottom", "black", "men", "women", "get"]
    assert STOP_WORDS.isdisjoint(triggers)
    assert STOP_WORDS.isdisjoint(NUMBER_WORDS)
    assert all(word == plain(word) for word in STOP_WORDS)


def test_endless_words_are_neither_rated_nor_looked_up() -> None:
    assert frequency("a" * 1_000_000) == 0.0
    assert pool_form("A" * 1_000_000, "lemma") == "a" * 1_000_000


@pytest.mark.parametrize(
    ("word", "surface", "lemma"),
    [
        ("Stole", "stole", "steal"),
        ("KILLING", "killing", "kill"),
        ("neighbour’s", "neighbour", "neighbour"),
        ("bombs'", "bombs", "bomb"),
        ("'", "'", "'"),
        ("Paris", "paris", "paris"),
        ("STRASSE", "strasse", "strasse"),
        ("self‑harm", "self-harm", "self-harm"),
    ],
)
def test_pool_forms(word: str, surface: str, lemma: str) -> None:
    assert pool_form(word, "surface") == surface
    assert pool_form(word, "lemma") == lemma


def test_frequency_is_the_share_of_english_words() -> None:
    assert frequency("the") > 0.01 > frequency("kill") > frequency("arson") > 0
    assert frequency("Arson’s") == frequency("arson")
    assert frequency("xqzwv") == 0
