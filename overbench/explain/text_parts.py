"""The parts of a text that may be taken out, and the text without some of them.

Of a prompt these are words (:func:`generators.words.spans`), all occurrences of one form together, since a
word that stands twice still stands when one is gone; of a system instruction, sentences.

**Replacement.** ``by="replacement"`` puts a neutral word of the same kind where the word was, so that the
sentence stays one. What kind a word is shows in its ending and its neighbours, without a tagger: numbers
become ``2``, names ``Alex``, words in -ing ``using``, in -ed ``used``, in -ly ``usually``; after *to*,
a pronoun or an auxiliary stands a verb (``use``), before another content word an adjective (``usual``), and
else a noun (``thing``, ``things`` where it ends in -s). It is wrong at times, as any such rule; the word that
it puts there is always harmless.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from generators.words import Exclusion, Span, exclusions, frequency, plain, spans

By = Literal["removal", "replacement"]
"""How a word is taken out."""

_BEFORE: Final = """to i you we they he she it who can could should would will shall may might must do does
did please not don't let's cannot can't"""
_BEFORE_VERBS: Final = frozenset(_BEFORE.split())
_NOUNS_IN_S: Final = ("ss", "us", "is")
_SENTENCE: Final = re.compile(
    r"\S(?:.*?(?:[.!?…][\"'”’)\]]*(?=\s|$)|[。！？｡][”’」』）]*)|[^\n]*)", re.DOTALL
)
_ENDS: Final = ("", *"\n.,;:!?)]}")


@dataclass(frozen=True, slots=True)
class TextPart:
    """One part of a text, with all its places.

    Attributes:
        text: as it stands at its first place.
        places: (start, end) in code points, in order.
        excluded: why a word carries no meaning of its own (:data:`~generators.words.Exclusion`), or "".
    """

    text: str
    places: tuple[tuple[int, int], ...]
    excluded: Exclusion = ""


def words_of(prompt: str) -> list[TextPart]:
    """The words of a prompt, each form once, in the order of their first places; marks are none."""
    text_spans = spans(prompt)
    reasons = exclusions(prompt, text_spans)
    places: dict[str, list[int]] = {}
    for number, span in enumerate(text_spans):
        if span.is_word:
            places.setdefault(plain(prompt[span.start : span.end]), []).append(number)
    return [
        TextPart(
            prompt[text_spans[numbers[0]].start : text_spans[numbers[0]].end],
            tuple((text_spans[number].start, text_spans[number].end) for number in numbers),
            reasons[numbers[0]],
        )
        for numbers in places.values()
    ]


def running_words(parts: Sequence[TextPart]) -> int:
    """How many words a text has, each as often as it stands there."""
    return sum(len(part.places) for part in parts)


def candidates(words: Sequence[TextPart]) -> list[int]:
    """The numbers of the words that may be taken out: all but stop words; where there is no other, all."""
    chosen = [number for number, word in enumerate(words) if word.excluded != "stop_word"]
    return chosen or list(range(len(words)))


def rarest_first(words: Sequence[TextPart], numbers: Sequence[int]) -> list[int]:
    """Content words before numbers and names, and the rarer in English first; ties in the order given."""
    return sorted(numbers, key=lambda number: (bool(words[number].excluded), frequency(words[number].text)))


def sentences_of(text: str) -> list[TextPart]:
    """The sentences of a text: they end at a full stop, question or exclamation mark before white space, at a
    Chinese or Japanese one, or at the end of a line."""
    sentences = []
    for line in re.finditer(r"[^\n]+", text):
        for match in _SENTENCE.finditer(line[0]):
            start = line.start() + match.start()
            end = start + len(match[0].rstrip())
            sentences.append(TextPart(text[start:end], ((start, end),)))
    return sentences


def without(text: str, parts: Sequence[TextPart], numbers: Collection[int], by: By = "removal") -> str:
    """The text with these parts taken out, or replaced; "" where no word is left.

    Of the blanks on both sides of what was taken out those before it stay, and none where a mark closes or a
    line ends behind it; all other white space stays as it is, such as that of code.
    """
    taken = sorted(span for number in numbers for span in parts[number].places)
    neutral = _neutral_words(text) if by == "replacement" else {}
    left, after = "", 0
    for start, end in taken:
        left += text[after:start]
        if by == "replacement":
            left, after = left + neutral[start], end
            continue
        begins = not left.strip() or left[-1] in "\n([{"
        while (begins or left[-1].isspace()) and text[end : end + 1].isspace() and text[end] != "\n":
            end += 1
        if not begins and text[end : end + 1] in _ENDS:
            left = left.rstrip(" \t")
        after = end
    left = (left + text[after:]).strip()
    return left if any(span.is_word for span in spans(left)) else ""


def _neutral_words(text: str) -> dict[int, str]:
    """For each word by its start what stands for it."""
    text_spans = spans(text)
    kinds = exclusions(text, text_spans)
    return {
        span.start: _neutral(text, text_spans, kinds, number)
        for number, span in enumerate(text_spans)
        if span.is_word
    }


def _neutral(text: str, text_spans: Sequence[Span], kinds: Sequence[Exclusion], number: int) -> str:
    span = text_spans[number]
    word = text[span.start : span.end]
    folded = plain(word)
    before = text_spans[number - 1] if number else None
    after = text_spans[number + 1] if number + 1 < len(text_spans) else None
    if kinds[number] == "number":
        return "2"
    if kinds[number] == "name":
        return "Alex"
    if folded.endswith("ing") and len(folded) > 5:
        neutral = "using"
    elif folded.endswith("ed") and len(folded) > 4:
        neutral = "used"
    elif folded.endswith("ly") and len(folded) > 4:
        neutral = "usually"
    elif before and before.is_word and plain(text[before.start : before.end]) in _BEFORE_VERBS:
        neutral = "use"
    elif after and after.is_word and not kinds[number + 1]:
        neutral = "usual"
    else:
        neutral = "things" if folded.endswith("s") and not folded.endswith(_NOUNS_IN_S) else "thing"
    return neutral.capitalize() if word[0].isupper() else neutral
