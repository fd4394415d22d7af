"""``overbench diversity``: how varied several sets of prompts are, side by side.

What grows or falls with the number of prompts is measured on equally many of each set, drawn by a seed: as
many as the smallest set has, at most :attr:`DiversitySettings.sample`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from generators.near_duplicates import near_duplicates
from overbench.diversity.similarity import bert_score, embeddings, nearest
from overbench.diversity.word_measures import (
    OPENINGS,
    Opening,
    distinct,
    openings,
    quartiles,
    self_bleu,
    words_of,
)
from overbench_tasks.display import NONE, Cell, Table, markdown_lines
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import normalised, read_prompts
from overbench_tasks.prompts.sources import source_file
from overbench_tasks.text import markdown_cell, number_of, printable

THRESHOLD: Final = 0.8
"""From this similarity on, two prompts are near duplicates, as for ``overbench aggregate``."""

SHOWN_OPENINGS: Final = 3
NO_ENCODER: Final = "none"


class DiversitySettings(BaseModel):
    """What ``overbench diversity`` is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample: int = Field(200, ge=2, description="how many prompts of each file are drawn, at most")
    seed: int = Field(0, description="of the draw")
    encoder: str = Field(
        "minilm-l6-v2",
        description="what compares prompts: a name of overbench models, a folder, or a hub id; none: nothing",
    )
    bert_score_model: str | None = Field(
        None,
        description="the model of BERTScore, such as roberta-large, which bert-score recommends for English; "
        "without it the encoder",
    )


@dataclass(frozen=True)
class Diversity:
    """How varied one set is. NaN: could not be told, or was not measured.

    Attributes:
        prompts: how many the set has, each text once.
        drawn: how many of them Self-BLEU, distinct-n, BERTScore and ``nearest_drawn`` are about.
        words: lower quartile, median and upper quartile of the prompts' lengths in words.
        openings: the commonest ways to begin, with the share of prompts that do.
        distinct: distinct-1, -2 and -3, in (0, 1].
        self_bleu: 0 to 100.
        near_duplicates: the share that ``overbench aggregate`` would drop at :data:`THRESHOLD`.
        nearest: mean cosine similarity to the nearest other prompt of the set, in [-1, 1].
        nearest_drawn: the same among the drawn.
        nearest_of_first: of the first set's prompts to the nearest one here, without the texts of both.
        shared: how many texts are in the first set, too.
        bert_score: mean F1 of random pairs.
    """

    name: str
    prompts: int
    drawn: int
    words: tuple[float, float, float]
    openings: tuple[Opening, ...]
    distinct: tuple[float, float, float]
    self_bleu: float
    near_duplicates: float
    nearest: float = math.nan
    nearest_drawn: float = math.nan
    nearest_of_first: float = math.nan
    shared: int = 0
    bert_score: float = math.nan

    def figures(self) -> dict[str, str]:
        """What a table shows, by the name of the row."""
        low, median, high = self.words
        begin = [f"{one.words}: {one.share:.1%}" for one in self.openings[:SHOWN_OPENINGS]]
        begin += [NONE] * (SHOWN_OPENINGS - len(begin))
        together = sum(one.share for one in self.openings)
        return {
            "prompts": f"{self.prompts:,}",
            "words: median (quartiles)": f"{median:g} ({low:g} to {high:g})",
            **{f"opening {place}": text for place, text in enumerate(begin, start=1)},
            f"share of the {OPENINGS} commonest openings": f"{together:.1%}",
            "near duplicates": f"{self.near_duplicates:.1%}",
            "nearest neighbour": _number(self.nearest),
            "prompts drawn": f"{self.drawn:,}",
            "distinct-1, -2, -3": ", ".join(map(_number, self.distinct)),
            "Self-BLEU": _number(self.self_bleu, 1),
            "nearest neighbour among the drawn": _number(self.nearest_drawn),
            "BERTScore F1 of drawn pairs": _number(self.bert_score),
        }


@dataclass(frozen=True)
class DiversityReport:
    """Several sets side by side; ``notes`` say what was not measured, and why."""

    sets: tuple[Diversity, ...]
    settings: DiversitySettings
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it, for ``json.dumps``; None for what could not be told."""
        sets = [{name: _told(value) for name, value in asdict(one).items()} for one in self.sets]
        return {"settings": self.settings.model_dump(), "sets": sets, "notes": list(self.notes)}

    def lines(self) -> Iterator[str]:
        """A Markdown table with a set per column, aligned for a terminal, and below it what it rests on."""
        first, *others = self.sets
        shown = [one.figures() for one in self.sets]
        rows = [[name, *(figures[name] for figures in shown)] for name in shown[0]]
        if others:
            across = (
                f"{_number(one.nearest_of_first)} ({number_of(one.shared, 'text')} in both)" for one in others
            )
            rows.append([f"nearest neighbour of {first.name} in it", NONE, *across])
        table = Table(
            columns=("set", *(one.name for one in self.sets)),
            rows=tuple(tuple(map(Cell, row)) for row in rows),
            numeric=frozenset(range(1, len(self.sets) + 1)),
        )
        yield from markdown_lines(table, lambda text: markdown_cell(printable(text)), aligned=True)
        yield ""
        settings = self.settings
        yield (
            f"Drawn by seed {settings.seed}. Lower is more varied, but for distinct-n. Neighbours by cosine "
            f"similarity ({settings.encoder}), near duplicates from a Jaccard similarity of {THRESHOLD} on, "
            f"BERTScore by {settings.bert_score_model or settings.encoder}."
        )
        yield from map(printable, self.notes)


def describe(sets: Mapping[str, Sequence[str]], settings: DiversitySettings) -> DiversityReport:
    """How varied sets of prompts are.

    Args:
        sets: prompts by the name of their set, at least one each; the first set is the one that the nearest
            neighbours of others are compared with.

    Raises:
        OverbenchError: no sets, or an encoder or model of BERTScore that was set can't be used. Where the
            default encoder or bert-score is not there, a note says what to install.
    """
    if not sets or not all(sets.values()):
        raise OverbenchError("Expected at least one set of prompts, and none that is empty.")
    size = min(settings.sample, *map(len, sets.values()))
    draws = {
        name: random.Random(settings.seed).sample(range(len(prompts)), size)  # noqa: S311
        for name, prompts in sets.items()
    }
    found = [_by_words(name, prompts, draws[name]) for name, prompts in sets.items()]
    notes: list[str] = []

    def tried(measure: Callable[[], list[Diversity]], chosen: bool) -> None:
        nonlocal found
        try:
            found = measure()
        except OverbenchError as error:
            if chosen:
                raise
            notes.append(str(error))

    if settings.encoder != NO_ENCODER:
        chosen = "encoder" in settings.model_fields_set
        tried(lambda: _with_neighbours(found, sets, draws, settings.encoder), chosen)
    model = settings.bert_score_model or settings.encoder
    if model != NO_ENCODER:
        drawn = {name: [sets[name][place] for place in places] for name, places in draws.items()}
        chosen = settings.bert_score_model is not None
        tried(lambda: [replace(one, bert_score=bert_score(drawn[one.name], model)) for one in found], chosen)
    return DiversityReport(tuple(found), settings, tuple(notes))


def read_sets(files: Sequence[str]) -> dict[str, list[str]]:
    """The prompts of each file by its name: what stands before "=", else the file's, or the release's.

    Args:
        files: each what ``overbench_source`` may be, or ``NAME=`` and that. A file that is there is taken
            as it is, also with "=" in its name.

    Raises:
        OverbenchError: two would have the same name, or one can't be read.
    """
    sets: dict[str, list[str]] = {}
    for given in files:
        name, equals, source = given.partition("=")
        if Path(given).expanduser().exists() or not equals:
            name, source = "", given
        path = Path(source)
        name = name or path.name.partition(".")[0] or path.resolve().name
        if name in sets:
            raise OverbenchError(
                f"Two files would both be called {name!r}. Expected names of their own: OTHER={source}"
            )
        sets[name] = [str(row["prompt"]) for row in read_prompts(source_file(source))]
    return sets


def _by_words(name: str, prompts: Sequence[str], places: Sequence[int]) -> Diversity:
    words = [words_of(prompt) for prompt in prompts]
    of_drawn = [words[place] for place in places]
    return Diversity(
        name=name,
        prompts=len(prompts),
        drawn=len(places),
        words=quartiles(list(map(len, words))),
        openings=openings(words),
        distinct=(distinct(of_drawn, 1), distinct(of_drawn, 2), distinct(of_drawn, 3)),
        self_bleu=self_bleu([prompts[place] for place in places]),
        near_duplicates=len(near_duplicates([*map(normalised, prompts)], THRESHOLD)) / len(prompts),
    )


def _with_neighbours(
    found: Sequence[Diversity],
    sets: Mapping[str, Sequence[str]],
    draws: Mapping[str, Sequence[int]],
    encoder: str,
) -> list[Diversity]:
    vectors = dict(zip(sets, embeddings(list(sets.values()), encoder), strict=True))
    texts = {name: [*map(normalised, prompts)] for name, prompts in sets.items()}
    first = found[0].name

    def across(name: str) -> tuple[float, int]:
        own, others = set(texts[first]), set(texts[name])
        new = [place for place, text in enumerate(texts[name]) if text not in own]
        left = [place for place, text in enumerate(texts[first]) if text not in others]
        return nearest(vectors[first][left], vectors[name][new]), len(own & others)

    told = []
    for one in found:
        of_first, shared = across(one.name) if one.name != first else (math.nan, 0)
        told.append(
            replace(
                one,
                nearest=nearest(vectors[one.name]),
                nearest_drawn=nearest(vectors[one.name][draws[one.name]]),
                nearest_of_first=of_first,
                shared=shared,
            )
        )
    return told


def _number(value: float, digits: int = 3) -> str:
    return NONE if math.isnan(value) else f"{value:.{digits}f}"


def _told(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_told(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
