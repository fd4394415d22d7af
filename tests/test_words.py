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
)
from overbench_tasks.text import encodable

ANY_TEXT = st.text(st.characters(), max_size=60)
HOSTILE = "\x00\x1b[31m\u202eevil\u2069 \ud800 {{ x }} <b>\r\n\u2028"


def words(text: str) -> list[str]:
    return [text[s.start : s.end] for s in spans(text) if s.is_word]


def excluded(text: str) -> dict[str, str]:
    found = spans(text)
    return {text[s.start : s.end]: why for s, why in zip(found, exclusions(text, found), strict=True) if why}


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
    assert words(text) == expected


def test_marks_are_runs_between_words_without_blanks() -> None:
    text = "Why?!  (so) 😀"
    assert [text[s.start : s.end] for s in spans(text) if not s.is_word] == ["?!", "(", ")", "😀"]


@given(ANY_TEXT | st.just(HOSTILE))
def test_spans_cover_all_but_blanks_each_with_a_reason_a_frequency_and_a_form(
    text: str,
) -> None:
    text = encodable(text)
    found = spans(text)
    covered = [at for s in found for at in range(s.start, s.end)]
    assert covered == sorted(set(covered))
    assert all(0 <= s.start < s.end <= len(text) for s in found)
    assert all(text[at].isspace() for at in set(range(len(text))) - set(covered))
    assert len(exclusions(text, found)) == len(found)
    for span in found:
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


def test_stop_words_and_contractions_and_single_letters_are_excluded() -> None:
    text = "The dog doesn't bark, what's wrong, I’m sad, c u, we'd y'all"
    stop = {w for w, why in excluded(text).items() if why == "stop_word"}
    assert stop == {"The", "doesn't", "what's", "I’m", "c", "u", "we'd"}


def test_stop_words_hold_no_trigger() -> None:
    triggers = ["kill", "fire", "cry", "move", "bill", "find", "bottom", "black", "men", "women", "get"]
    assert STOP_WORDS.isdisjoint(triggers)
    assert STOP_WORDS.isdisjoint(NUMBER_WORDS)
    assert all(word == plain(word) for word in STOP_WORDS)


def test_numbers_are_excluded_but_not_words_with_digits() -> None:
    text = "Buy 3 or 10,000 in the 1990s on the 2nd, twenty ak-47 and c4 1-2"
    numbers = {w for w, why in excluded(text).items() if why == "number"}
    assert numbers == {"3", "10", "000", "1990s", "2nd", "twenty", "1-2"}


def test_rare_capitalised_words_inside_a_sentence_are_names() -> None:
    text = "Ask Zorblat to kill Khloé. Xanthippe said: Wendelin met a Muslim on LSD near Kyzyl"
    names = {w for w, why in excluded(text).items() if why == "name"}
    assert names == {"Zorblat", "Khloé", "Kyzyl"}


@pytest.mark.parametrize(
    "text", ["How to Steal the Money from a Burglary Alarm Company", "WHERE WOULD YOU HIDE A BURGLARY TOOL"]
)
def test_no_names_where_capitals_are_the_rule(text: str) -> None:
    assert "name" not in excluded(text).values()


def test_endless_words_are_no_words() -> None:
    key = "x" * (LONGEST_WORD + 1)
    assert excluded(f"crack {key}") == {key: "not_a_word"}
    assert frequency("a" * 1_000_000) == 0.0
    assert pool_form("A" * 1_000_000, "lemma") == "a" * 1_000_000


def test_marks_are_punctuation() -> None:
    assert excluded("kill?! 🔫") == {"?!": "punctuation", "🔫": "punctuation"}


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
