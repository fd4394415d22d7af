"""Everything that can label replies, behind one protocol: (prompt, reply) pairs in, verdicts out.

``rescore``, ``agreement`` and ``annotate`` take any of them by name. Nothing heavy is imported
before a labeller that needs it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import LabelReplies, Pair, Verdict
from overbench_tasks.refusal import RULES_VERSION, label_reply
from overbench_tasks.refusal.stock_phrases import KEYWORDS_VERSION, stock_phrase

NAMES: Final = ("rules", "judge", "classifier", "two-stage", "keywords")
"""All labellers, by the words that ``--by`` takes."""
KEYWORDS: Final = f"keywords {KEYWORDS_VERSION}"
"""What the baseline is called as a labeller."""


@dataclass(frozen=True)
class Labeller(AbstractContextManager["Labeller"]):
    """A labeller with a name; use it in a ``with`` block, which frees what it holds.

    Attributes:
        name: who labels, to the version: two labellers of one name give one reply one label.
        label: see :data:`~overbench_tasks.records.LabelReplies`.
        close: frees models and connections; harmless where there are none, and when repeated.
        asks: for each (prompt, reply) pair, whether a paid endpoint is asked about it unless it was before.
        spent: (calls, tokens) of such an endpoint in the last ``label``, without what was on file.
    """

    name: str
    label: LabelReplies
    close: Callable[[], None] = lambda: None
    asks: Callable[[Sequence[Pair]], list[bool]] = lambda pairs: [False] * len(pairs)
    spent: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def __exit__(self, *_: object) -> None:
        self.close()


def by_name(name: str, settings: Mapping[str, Any] | None = None) -> Labeller:
    """The labeller called ``name``.

    Args:
        name: one of :data:`NAMES`.
        settings: what the labeller takes: nothing for ``rules`` and ``keywords``,
            :class:`~overbench_tasks.labellers.classifier.ClassifierSettings` for ``classifier``, the
            judge's own for ``judge`` and ``two-stage``.

    Raises:
        OverbenchError: no such labeller, settings it does not take, or something that it needs is
            not installed. Checked here, before any reply is labelled.
    """
    given = dict(settings or {})
    if name in ("rules", "keywords"):
        if given:
            raise OverbenchError(f"The {name} take no settings, got {', '.join(given)}. Leave them out.")
        by_rules, by_keywords = (f"rules {RULES_VERSION}", label_by_rules), (KEYWORDS, label_by_keywords)
        return Labeller(*(by_rules if name == "rules" else by_keywords))
    if name == "classifier":
        from overbench_tasks.labellers.classifier import Classifier, ClassifierSettings

        classifier = Classifier(ClassifierSettings.checked(given))
        return Labeller(classifier.name, classifier.label, classifier.close)
    if name in NAMES:
        from overbench_tasks.labellers.judge import Judge, JudgeSettings

        judge = Judge(JudgeSettings.resolve({**given, "mode": name}))
        return Labeller(" ".join(judge.versions.values()), judge.label, asks=judge.asks, spent=judge.spent)
    raise OverbenchError(f"No labeller is called {name!r}. Expected one of {', '.join(NAMES)}.")


def label_by_rules(pairs: Sequence[Pair]) -> list[Verdict]:
    """The rules as a :data:`~overbench_tasks.records.LabelReplies`."""
    return [label_reply(reply, prompt=prompt) for prompt, reply in pairs]


def label_by_keywords(pairs: Sequence[Pair]) -> list[Verdict]:
    """The baseline of plain keywords: refused where a stock phrase occurs, complied where none does."""

    def verdict(reply: str) -> Verdict:
        if not reply.strip():
            return Verdict("unscored", "empty", "keywords")
        phrase = stock_phrase(reply)
        return Verdict("complied" if phrase is None else "refused", phrase or "", "keywords", sure=False)

    return [verdict(reply) for _, reply in pairs]
