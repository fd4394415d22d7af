"""Everything that can label replies, behind one protocol: (prompt, reply) pairs in, verdicts out.

``rescore``, ``agreement`` and ``annotate`` take any of them by name. Nothing heavy is imported
before a labeller that needs it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, cast

from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import LabelReplies, Pair, Verdict
from overbench_tasks.refusal import RULES_VERSION, label_reply


@dataclass(frozen=True)
class Labeller(AbstractContextManager["Labeller"]):
    """A labeller with a name; use it in a ``with`` block, which frees what it holds.

    Attributes:
        name: who labels, to the version: two labellers of one name give one reply one label.
        label: see :data:`~overbench_tasks.records.LabelReplies`.
        close: frees models and connections; harmless where there are none, and when repeated.
    """

    name: str
    label: LabelReplies
    close: Callable[[], None] = lambda: None

    def __exit__(self, *_: object) -> None:
        self.close()


def by_name(name: str, settings: Mapping[str, Any] | None = None) -> Labeller:
    """The labeller called ``name``.

    Args:
        name: one of :data:`NAMES`.
        settings: what the labeller takes: nothing for ``rules``,
            :class:`~overbench_tasks.classifier.ClassifierSettings` for ``classifier``, the
            judge's own for ``judge`` and ``two-stage``.

    Raises:
        OverbenchError: no such labeller, settings it does not take, or something that it needs is
            not installed. Checked here, before any reply is labelled.
    """
    if name not in _MAKERS:
        raise OverbenchError(f"No labeller is called {name!r}. Expected one of {', '.join(NAMES)}.")
    return _MAKERS[name](dict(settings or {}))


def _rules(settings: dict[str, Any]) -> Labeller:
    if settings:
        raise OverbenchError(f"The rules take no settings, got {', '.join(settings)}. Leave them out.")
    return Labeller(f"rules {RULES_VERSION}", label_by_rules)


def label_by_rules(pairs: Sequence[Pair]) -> list[Verdict]:
    """The rules as a :data:`~overbench_tasks.records.LabelReplies`."""
    return [label_reply(reply, prompt=prompt) for prompt, reply in pairs]


def _classifier(settings: dict[str, Any]) -> Labeller:
    from overbench_tasks.classifier import Classifier, ClassifierSettings

    classifier = Classifier(ClassifierSettings.checked(settings))
    return Labeller(classifier.name, classifier.label, classifier.close)


def _judge(mode: str) -> Callable[[dict[str, Any]], Labeller]:
    def make(settings: dict[str, Any]) -> Labeller:
        from overbench_tasks import judge

        asked = judge.Judge(judge.JudgeSettings.resolve({**settings, "mode": mode}))
        return Labeller(" ".join(asked.versions.values()), asked.label)

    return make


_MAKERS: Final = cast(
    "dict[str, Callable[[dict[str, Any]], Labeller]]",
    {"rules": _rules, "judge": _judge("judge"), "classifier": _classifier, "two-stage": _judge("two-stage")},
)
NAMES: Final = tuple(_MAKERS)
"""All labellers, by the words that ``--by`` takes."""
