"""The presence filter: does the new prompt really hold the word it was written around?"""

from __future__ import annotations

import unicodedata

from pydantic import BaseModel, Field

from generators.prompt_filters.rejection import Rejection
from generators.words import Form, pool_form
from overbench_tasks.prompts import MAX_PROMPT_CHARS
from overbench_tasks.text import excerpt


class PresenceSettings(BaseModel, frozen=True, extra="forbid"):
    """Whether there is this filter. Which form of the word counts is the attribution's setting."""

    enabled: bool = Field(True, description="false: a prompt need not hold the word it was written around")


def presence_problem(prompt: str, feature: str, form: Form = "surface") -> Rejection | None:
    """Whether the feature's words stand in the prompt, whole, next to each other and in order.

    Case and Unicode form (NFKC) don't count, nor does what stands between words: "self-harm" is found
    in "self harm", "kill" in "a kill-switch" and in "the kill's aftermath". A part of a word is not
    found: no "kill" in "skill" or "killjoy", no "can" in "can't".

    Args:
        prompt: the new prompt.
        feature: one word or several.
        form: ``surface``: the words as they are, so that "killing" is not "kill". ``lemma``: their
            dictionary forms by simplemma, so that "killing", "killed" and "kills" are "kill", and "stole"
            is "steal". What another word is made of stays apart: a "killer" is not "kill", and
            neither is what the dictionary lists as a form of its own ("shot" is not "shoot").

    Returns:
        None where the feature is present, else a rejection by the filter ``presence``: ``absent``, or
        ``no_word`` for a feature without a letter or digit.
    """
    found, wanted = words(prompt), words(feature)
    if not wanted:
        return Rejection("presence", "no_word", excerpt(feature))
    as_lemmas = ([pool_form(word, "lemma") for word in some] for some in (found, wanted))
    if _holds(found, wanted) or (form == "lemma" and _holds(*as_lemmas)):
        return None
    return Rejection("presence", "absent", excerpt(feature))


def words(text: str) -> list[str]:
    """The words of a text in order: NFKC, case folded, without a possessive 's.

    A word is a run of letters, marks and digits; an apostrophe inside stays, a hyphen divides. Only
    the first :data:`~overbench_tasks.prompts.MAX_PROMPT_CHARS` characters are read.
    """
    import regex  # unlike re, it counts the vowel signs of Indic scripts as parts of words

    folded = unicodedata.normalize("NFKC", text[:MAX_PROMPT_CHARS]).casefold().replace("’", "'")
    found = regex.findall(r"[\p{L}\p{M}\p{N}]+(?:'[\p{L}\p{M}]+)*", folded)
    return [word.removesuffix("'s") for word in found]


def _holds(found: list[str], wanted: list[str]) -> bool:
    return any(found[at : at + len(wanted)] == wanted for at, word in enumerate(found) if word == wanted[0])
