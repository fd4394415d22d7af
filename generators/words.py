"""The words of a prompt: their places, their frequency, and which of them cannot be features.

There are two tokenisers. :func:`spans` and :func:`words_of` give words as they are written, with a hyphenated
word as one. :func:`word_parts` is made of these words and gives them as texts are compared, with a hyphenated
word as several. Only code on a fast path has a pattern of its own, and says why.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Form = Literal["surface", "lemma"]
"""``surface``: the word as written, casefolded; ``lemma``: its English dictionary form."""

Exclusion = Literal["", "stop_word", "number", "name", "punctuation", "not_a_word"]
"""Why a word cannot be a feature; empty where it can."""

NAME_FREQUENCY: Final = 1e-5
"""A capitalised word inside a sentence is taken for a name if its frequency in English is below this. More
frequent ones, such as Muslim, do trigger refusals and can be features."""

LONGEST_WORD: Final = 40
"""Characters. Longer runs are keys, encoded bytes or noise."""

# Closed word classes and words of politeness. Lists of frequent words, such as scikit-learn's, also have
# fire, cry, bill, find, move and bottom. Other common words (get, people, make) can be features: their
# frequency ranks them low, and raw scores remain comparable.
_FUNCTION_WORDS = """
a an the this that these those such same other another each every either neither both all any some no
none few many much more most less least several enough own
i me my mine myself we us our ours ourselves you your yours yourself yourselves u ur he him his himself
she her hers herself it its itself they them their theirs themselves one ones someone somebody something
anyone anybody anything everyone everybody everything nobody nothing who whom whose which what whatever
whoever whichever
am is are was were be been being do does did doing done have has had having can could will would shall
should may might must ought cannot cant dont wont didnt doesnt isnt gonna wanna gotta
about above across after against along among around as at before behind below beneath beside besides
between beyond by despite down during except for from in inside into like near of off on onto out outside
over per since than through throughout to toward towards under until till up upon via with within without
and but or nor so yet if because although though unless while whereas whether when whenever where wherever
why how however therefore thus then else
not never ever always often sometimes usually also too very quite rather really just only even still
already again almost perhaps maybe here there now soon once away instead
yes yeah no ok okay oh hey hi hello please thanks thank sure well
"""
STOP_WORDS: Final = frozenset(_FUNCTION_WORDS.split())

_NUMBERS = """
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
million billion first second third
"""
NUMBER_WORDS: Final = frozenset(_NUMBERS.split())

# An ideograph or a kana is a word of its own, as by Unicode's default word boundaries (UAX #29).
_IDEOGRAPH = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_START, _INNER = rf"[[\p{{L}}\p{{N}}]--{_IDEOGRAPH}]", rf"[[\p{{L}}\p{{N}}\p{{M}}\u200c\u200d]--{_IDEOGRAPH}]"
_WORD = rf"(?:{_IDEOGRAPH}\p{{M}}*|{_START}{_INNER}*(?:['’ʼ\-\u2010\u2011]{_START}{_INNER}*)*)"
_ONLY_WORDS = rf"(?V1){_WORD}"
_SPAN = rf"(?V1)(?P<word>{_WORD})|(?:(?!{_WORD})[^\s\x1c-\x1f])+"
_SENTENCE_ENDS = frozenset('.!?…:;\n"“”«»()[]•*-–—')
_NUMBER = re.compile(r"\d[\d'\-]*(st|nd|rd|th|s)?")


class Span(NamedTuple):
    """Characters ``[start, end)`` of a prompt: a word, or a run of marks between words."""

    start: int
    end: int
    is_word: bool


def spans(text: str) -> list[Span]:
    """The words of a text and the marks between them, in order; white space belongs to neither.

    A word is a run of letters, digits and combining marks, with apostrophes and hyphens inside it (``don't``,
    ``self-harm``). Each ideograph and each kana is a word. Everything else except white space (punctuation,
    emoji, control characters) is marks. Offsets count code points.
    """
    import regex

    matches = regex.finditer(_SPAN, text)
    return [Span(match.start(), match.end(), match["word"] is not None) for match in matches]


def words_of(text: str) -> list[str]:
    """The words of :func:`spans` as they are written, in order: a hyphenated word is one word."""
    import regex

    return list(regex.findall(_ONLY_WORDS, text))


def word_parts(text: str) -> list[str]:
    """The words by which texts are compared, in order.

    They are in Unicode form NFKC and casefolded, with straight apostrophes and without a possessive ``'s``. A
    hyphenated word gives its parts: "self-harm" gives "self" and "harm".
    """
    words = words_of(_straight(unicodedata.normalize("NFKC", text).casefold()))
    return [part for word in words for part in word.removesuffix("'s").split("-")]


def plain(word: str) -> str:
    """The word casefolded, with straight apostrophes and hyphens and without a possessive ``'s``."""
    folded = _straight(word.casefold())
    return folded.removesuffix("'s").removesuffix("'") or folded


def _straight(text: str) -> str:
    """The text with straight apostrophes and plain hyphens."""
    return text.translate({0x2019: "'", 0x2BC: "'", 0x2010: "-", 0x2011: "-"})


def pool_form(word: str, form: Form) -> str:
    """The form of a word under which its uses as a feature are counted."""
    import simplemma

    folded = plain(word)
    if form == "surface" or len(folded) > LONGEST_WORD:
        return folded
    return str(simplemma.lemmatize(folded, lang="en")).casefold()


def frequency(word: str) -> float:
    """The word's share of all English words, in [0, 1]; 0 for words that wordfreq does not have.

    Forms have their own frequencies (``stole`` is not ``steal``); that of a hyphenated word follows from its
    parts.
    """
    from wordfreq import word_frequency

    return float(word_frequency(plain(word), "en")) if len(word) <= LONGEST_WORD else 0.0


def exclusions(text: str, word_spans: Sequence[Span]) -> list[Exclusion]:
    """For each span of :func:`spans`, why it cannot be a feature, or "".

    - ``punctuation``: marks.
    - ``not_a_word``: longer than :data:`LONGEST_WORD` characters.
    - ``number``: digits, with at most an ordinal or plural ending (``2nd``, ``1990s``), or a number word.
    - ``stop_word``: in :data:`STOP_WORDS`, a contraction with one of them (``don't``, ``what's``), or a
      single letter.
    - ``name``: less frequent than :data:`NAME_FREQUENCY` and capitalised inside a sentence, but not all in
      capitals (LSD). If most of the more frequent words are capitalised too (a headline, shouting), no word
      is a name. Names at the beginning of a sentence or in lower case are not recognised.
    """
    words = [text[span.start : span.end] for span in word_spans]
    reasons = [_exclusion(word, span.is_word) for word, span in zip(words, word_spans, strict=True)]
    inside = [
        i for i, starts in enumerate(_sentence_starts(text, word_spans)) if not starts and not reasons[i]
    ]
    common = [words[i] for i in inside if frequency(words[i]) >= NAME_FREQUENCY]
    if len(common) >= 3 and 2 * sum(word[0].isupper() for word in common) > len(common):
        return reasons
    for i in inside:
        if frequency(words[i]) < NAME_FREQUENCY and words[i][0].isupper() and not words[i].isupper():
            reasons[i] = "name"
    return reasons


def _exclusion(word: str, is_word: bool) -> Exclusion:
    """The reasons that do not depend on the word's place in the sentence."""
    if not is_word:
        return "punctuation"
    if len(word) > LONGEST_WORD:
        return "not_a_word"
    folded = plain(word)
    if folded in NUMBER_WORDS or _NUMBER.fullmatch(folded):
        return "number"
    stem, apostrophe, ending = folded.partition("'")
    contraction = apostrophe and (ending == "t" or stem in STOP_WORDS)
    if contraction or folded in STOP_WORDS or (len(folded) == 1 and folded.isascii()):
        return "stop_word"
    return ""


def _sentence_starts(text: str, word_spans: Sequence[Span]) -> list[bool]:
    """For each span, whether it begins a sentence."""
    starts: list[bool] = []
    after, first = 0, True
    for span in word_spans:
        starts.append(first or not _SENTENCE_ENDS.isdisjoint(text[after : span.start]))
        if span.is_word:
            after, first = span.end, False
    return starts
