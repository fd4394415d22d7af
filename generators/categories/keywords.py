"""The risk that a harmless prompt only seems to carry, by the words that make it seem so.

The paper's four categories and others (Pu et al. 2025, section 4, which sorts by keywords and inspection
and publishes neither), and OR-Bench's ten as a second label (Cui et al. 2024). Both come from one list,
``category_keywords.yaml``. The evidence is kept with the label: a wrong one can be traced to its word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, get_args

from generators.words import LONGEST_WORD, pool_form, words_of
from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import CATEGORIES, Category

KEYWORD_FILE: Final = Path(__file__).with_name("category_keywords.yaml")
NO_KEYWORD: Final = "no keyword"
"""The evidence of a prompt in which nothing was found; it is filed under ``others``."""

OrBenchCategory = Literal[
    "hate",
    "self-harm",
    "sexual",
    "violence",
    "harassment",
    "harmful",
    "illegal",
    "unethical",
    "privacy",
    "deception",
]
OR_BENCH_CATEGORIES: Final[tuple[OrBenchCategory, ...]] = get_args(OrBenchCategory)

_NEEDED: Final = frozenset({"category", "words"})
_OPTIONAL: Final = frozenset({"or_bench", "everyday"})


@dataclass(frozen=True, slots=True)
class Categorised:
    """What a prompt is filed under.

    Attributes:
        category: one of the paper's five.
        or_bench_category: one of OR-Bench's ten, or None where nothing was found.
        evidence: what decided: ``feature: crack`` or ``words: theft, loot``, by the keywords found;
            :data:`NO_KEYWORD`; or ``judge:<model>``.
    """

    category: Category
    or_bench_category: OrBenchCategory | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A group of keywords with its two labels."""

    name: str
    category: Category
    or_bench_category: OrBenchCategory | None


@dataclass(frozen=True)
class Keywords:
    """The list, ready to be searched.

    Attributes:
        topics: keyword -> topic; a phrase's words are joined by one space.
        longest: for each word that begins a keyword, the number of words in the longest such.
        everyday: the keywords that count in a prompt's own words only where it has no other.
    """

    topics: dict[str, Topic]
    longest: dict[str, int]
    everyday: frozenset[str]


def categorise(prompt: str, features: Sequence[str] = ()) -> Categorised:
    """File a prompt by its trigger words, or else by all of its words.

    The category is the risk that the prompt seems to carry, so its trigger words say more than its topic:
    "How do I kill a Python process?" is violence. The first feature that holds a keyword decides, by
    its first keyword. Where none does, each keyword of the prompt counts for its topic, and the topic with
    the most wins, the one that comes first in the prompt where they are equal. Everyday words (hot, box)
    count fully in a feature, and in a prompt only where it holds no other keyword.

    Words are compared whole, case folded, as written or by their dictionary form; a hyphenated word
    also by its parts. Of phrases that begin at one word the longest counts. English only: prompts in other
    languages find no keyword.

    Args:
        prompt: any text.
        features: the words that set models off, the main one first, as in a prompt's record.
    """
    for feature in features:
        if found := _in_feature(feature):
            keyword, topic = found[0]
            return Categorised(topic.category, topic.or_bench_category, f"feature: {keyword}")
    everyday, found = _keywords().everyday, _found(prompt)
    found = tuple(hit for hit in found if hit[0] not in everyday) or found
    if not found:
        return Categorised("others", None, NO_KEYWORD)
    counts = Counter(topic for _, topic in found)
    # The largest count; max takes the first of equals, and a Counter keeps the order of first sight.
    winner = max(counts, key=lambda topic: counts[topic])
    words = dict.fromkeys(keyword for keyword, topic in found if topic == winner)
    return Categorised(winner.category, winner.or_bench_category, f"words: {', '.join(words)}")


def read_keywords(file: Path = KEYWORD_FILE) -> Keywords:
    """Read a keyword list.

    Raises:
        OverbenchError: not readable, or not of the form of ``category_keywords.yaml``: an unknown
            category, a keyword twice, one that is not in lower case.
    """
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OverbenchError(f"The keyword list {file} cannot be read: {error}. Mend it.") from error
    if not isinstance(content, dict):
        raise OverbenchError(
            f"The keyword list {file}: expected topics with category and words, got {content!r}."
        )
    topics: dict[str, Topic] = {}
    longest: dict[str, int] = {}
    everyday: set[str] = set()
    for name, entry in content.items():
        topic, words, only_as_features = _topic(file, str(name), entry)
        everyday.update(only_as_features)
        for keyword in words + only_as_features:
            if keyword in topics:
                raise OverbenchError(
                    f"The keyword list {file} has {keyword!r} twice, under {topics[keyword].name} and "
                    f"{name}. Keep the one whose sense alarms."
                )
            topics[keyword] = topic
            first, *rest = keyword.split(" ")
            longest[first] = max(longest.get(first, 0), 1 + len(rest))
    return Keywords(topics, longest, frozenset(everyday))


def _topic(file: Path, name: str, entry: Any) -> tuple[Topic, list[str], list[str]]:
    """A topic, its words, and its everyday words."""
    where = f"The keyword list {file}, topic {name}"
    if not isinstance(entry, dict) or not _NEEDED <= entry.keys() <= _NEEDED | _OPTIONAL:
        raise OverbenchError(
            f"{where}: expected {', '.join(sorted(_NEEDED))} and perhaps {', '.join(sorted(_OPTIONAL))}, "
            f"got {entry!r}."
        )
    category, other = entry["category"], entry.get("or_bench")
    if category not in CATEGORIES:
        raise OverbenchError(f"{where}: unknown category {category!r}. Expected {', '.join(CATEGORIES)}.")
    if other is not None and other not in OR_BENCH_CATEGORIES:
        raise OverbenchError(
            f"{where}: unknown or_bench {other!r}. Expected {', '.join(OR_BENCH_CATEGORIES)}."
        )
    everyday = _words(where, entry["everyday"]) if "everyday" in entry else []
    return Topic(name, category, other), _words(where, entry["words"]), everyday


def _words(where: str, listed: object) -> list[str]:
    words = [" ".join(word.split()) for word in str(listed).split(",")]
    if strange := [word for word in words if not word or word != word.casefold()]:
        raise OverbenchError(f"{where}: expected keywords in lower case between commas, got {strange[0]!r}.")
    return words


@cache
def _keywords() -> Keywords:
    return read_keywords()


Found = tuple[tuple[str, Topic], ...]
"""(keyword, topic) of a text, in order."""


def _found(text: str) -> Found:
    """What one keyword covers is not searched for others."""
    topics = _keywords().topics
    words = [_word(word) for word in words_of(text)]
    found: list[tuple[str, Topic]] = []
    end = 0
    for place, (_, longest) in enumerate(words):
        if place < end:
            continue
        for size in range(min(longest, len(words) - place), 0, -1):
            run = [forms for forms, _ in words[place : place + size]]
            keyword = next((joined for joined in map(" ".join, product(*run)) if joined in topics), None)
            if keyword is not None:
                found.append((keyword, topics[keyword]))
                end = place + size
                break
    return tuple(found)


_in_feature = lru_cache(maxsize=1 << 16)(_found)
"""Prompts of one run share their features."""


@lru_cache(maxsize=1 << 16)
def _word(word: str) -> tuple[tuple[str, ...], int]:
    """A word's forms, and the number of words in the longest keyword that begins with one of them."""
    forms, longest = _forms(word), _keywords().longest
    return forms, max((longest.get(form, 0) for form in forms), default=0)


def _forms(word: str) -> tuple[str, ...]:
    """A word as it may stand in the list: as written, in dictionary form, then its parts."""
    if len(word) > LONGEST_WORD:
        return ()
    forms = [pool_form(word, "surface"), pool_form(word, "lemma")]
    if "-" in forms[0]:
        forms += [form for part in forms[0].split("-") for form in _forms(part)]
    return tuple(dict.fromkeys(forms))
