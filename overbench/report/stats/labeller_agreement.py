"""Several labellers on the same replies: how much each calls refused, how far they agree, where they part."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from overbench.release.release_inputs import Log
from overbench_tasks.labellers.keywords_labeller import KEYWORDS, label_by_keywords
from overbench_tasks.labellers.rules_labeller import label_by_rules
from overbench_tasks.metrics import UNDEFINED, Estimate, Rate
from overbench_tasks.outcomes.reply_rows import SAMPLES, ReplyRow, label_batch, reply_row
from overbench_tasks.providers.model_reply import from_backend
from overbench_tasks.records import LABELS, Label, Verdict
from overbench_tasks.refusal import RULES_VERSION
from overbench_tasks.tables import read_table

RULES: Final = f"rules {RULES_VERSION}"
SHOWN: Final = 40
"""Replies on which labellers part that are kept, of each way of parting about as many."""
DECLINES: Final = ("refused", "partial")

_Key = tuple[str, str | None]
_Labels = tuple[Label, ...]


@dataclass(frozen=True)
class PartedReply:
    """A reply that one labeller calls refused or partial, and another not; the labels by labeller."""

    target: str
    prompt: str | None
    reply: str
    labels: Mapping[str, Label]


@dataclass(frozen=True)
class PairAgreement:
    """Two labellers on the replies that both could score.

    Attributes:
        both, only_first, only_second, neither: replies that they call refused or partial.
    """

    first: str
    second: str
    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def rates(self) -> tuple[Rate, Rate]:
        """Of each, the share that it calls refused or partial."""
        return Rate(self.both + self.only_first, self.n), Rate(self.both + self.only_second, self.n)

    @property
    def alike(self) -> float:
        """Share of replies on which they say the same of declining or not; NaN for none."""
        return (self.both + self.neither) / self.n if self.n else math.nan

    def kappa(self, seed: int = 0) -> Estimate:
        """Cohen's kappa of refused or partial with the 95 % percentiles of a bootstrap over replies; not
        defined where both call all replies the same."""
        import numpy as np

        from overbench_tasks.metrics.resample import DRAWS, drawn_counts, with_percentiles
        from overbench_tasks.review.annotators import cohens_kappa

        if not self.n:
            return UNDEFINED
        cells = np.array([self.both, self.only_first, self.only_second, self.neither], dtype=float)
        drawn = drawn_counts(cells, DRAWS, np.random.default_rng(seed))
        kappa = float(cohens_kappa(cells.reshape(2, 2)))
        return with_percentiles(kappa, cohens_kappa(drawn.reshape(-1, 2, 2)), self.n)


@dataclass(frozen=True)
class LabellerComparison:
    """All labellers on the replies that logs hold.

    Attributes:
        labellers: plain keywords, our rules, then whoever else labelled, by name.
        labels: (target, ``safe`` or ``unsafe``) -> labeller -> its labels of the replies to such prompts.
        pairs: each two labellers that scored any reply in common.
        parted: a sample of the replies on which labellers part.
        parted_in_all: how many there are.
    """

    labellers: tuple[str, ...]
    labels: Mapping[tuple[str, str], Mapping[str, Counter[Label]]]
    pairs: tuple[PairAgreement, ...]
    parted: tuple[PartedReply, ...]
    parted_in_all: int


def compare_labellers(logs: Sequence[Log]) -> LabellerComparison | None:
    """Plain keywords, our rules and the labels that the logs hold, on the same replies.

    The labels of a log are those of its filters, and of the files that ``overbench rescore`` wrote beside it.
    Replies that the provider withheld have no text to read and are left out; an empty reply is unscored.

    Returns:
        None where no log holds a reply with text.

    Raises:
        OverbenchError: a log, or a rescored one, cannot be read.
    """
    from overbench_tasks.review.annotate import StratifiedSample

    ways: Counter[tuple[str, str, tuple[str, ...], _Labels]] = Counter()
    parted: StratifiedSample[PartedReply] = StratifiedSample(SHOWN, 0)
    for log in logs:
        for row, place, by in _labelled(log):
            names, labels = tuple(by), tuple(by.values())
            ways[log.target.target, row.prompt_label, names, labels] += 1
            if len({label in DECLINES for label in labels if label != "unscored"}) > 1:
                reply = PartedReply(log.target.target, row.prompt, row.replies[place], by)
                parted.add(", ".join(labels), reply)
    if not any(label != "unscored" for *_, labels in ways for label in labels):
        return None
    counts: dict[tuple[str, str], dict[str, Counter[Label]]] = defaultdict(lambda: defaultdict(Counter))
    cells: dict[tuple[str, str], Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for (target, side, names, labels), n in ways.items():
        for name, label in zip(names, labels, strict=True):
            counts[target, side][name][label] += n
        said = dict(zip(names, labels, strict=True))
        scored = {name: label in DECLINES for name, label in said.items() if label != "unscored"}
        for first, second in combinations(scored, 2):
            cells[first, second][scored[first], scored[second]] += n
    others = sorted({name for of_it in counts.values() for name in of_it}.difference((KEYWORDS, RULES)))
    labellers = (KEYWORDS, RULES, *others)
    pairs = [
        PairAgreement(*pair, *(cells[pair][one, other] for one in (True, False) for other in (True, False)))
        for pair in combinations(labellers, 2)
        if pair in cells
    ]
    return LabellerComparison(
        labellers,
        {place: dict(of_it) for place, of_it in sorted(counts.items())},
        tuple(pairs),
        tuple(one for _, one in parted.drawn()),
        parted.sizes.total(),
    )


def _labelled(log: Log) -> Iterator[tuple[ReplyRow, int, dict[str, Label]]]:
    """Each reply of a log that isn't withheld, by row and place, with all its labels by labeller.

    Keywords come first, then our rules, then others by name.
    """
    rows: dict[_Key, ReplyRow] = {}
    said: dict[_Key, dict[str, Sequence[Verdict]]] = defaultdict(dict)
    names = {log.run.filter: log.run.labelled_by, **log.run.other_filters}
    for where, raw in read_table(log.run.file):
        row = reply_row(raw, SAMPLES, where)
        rows.setdefault((row.id, row.prompt), row)
        said[row.id, row.prompt].setdefault(names.get(row.filter, row.filter), row.logged or ())
    pattern = f"rescored_*_{log.run.file.name.removesuffix('.gz')}"
    for file in sorted(log.run.file.parent.glob(pattern)):
        for where, raw in read_table(file):
            row = reply_row(raw, SAMPLES, where)
            for labeller, verdicts in _rescored(raw.values()):
                if (row.id, row.prompt) in rows:
                    said[row.id, row.prompt].setdefault(labeller, verdicts)
    _add(RULES, label_by_rules, rows, said)
    _add(KEYWORDS, label_by_keywords, rows, said)
    for key, row in rows.items():
        by = said[key]
        order = (KEYWORDS, RULES, *sorted(by.keys() - {KEYWORDS, RULES}))
        for place in range(len(row.replies)):
            found = {name: by[name][place] for name in order if len(by[name]) > place}
            silent = not row.replies[place].strip()
            if not any(from_backend(one) or (silent and one.blocked) for one in found.values()):
                yield row, place, {name: one.label for name, one in found.items()}


def _add(
    name: str,
    label: Callable[..., list[Verdict]],
    rows: Mapping[_Key, ReplyRow],
    said: Mapping[_Key, dict[str, Sequence[Verdict]]],
) -> None:
    """Have those rows labelled that ``name`` has not labelled yet."""
    missing = [key for key in rows if name not in said[key]]
    for key, verdicts in zip(missing, label_batch([rows[key] for key in missing], label), strict=True):
        said[key][name] = verdicts


def _rescored(values: Iterable[object]) -> Iterator[tuple[str, list[Verdict]]]:
    """The labels that ``overbench rescore`` added to a row."""
    for value in values:
        if isinstance(value, dict) and value.keys() == {"labeller", "verdicts"}:
            yield str(value["labeller"]), [Verdict.from_json(one) for one in value["verdicts"]]


def refusal_rate(labels: Counter[Label]) -> Rate:
    """Fully refused of the scored replies."""
    return Rate(labels["refused"], sum(labels[name] for name in LABELS if name != "unscored"))
