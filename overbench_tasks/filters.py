"""lm-eval filters that turn replies into verdicts, written as JSON so that sample logs keep them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter

from overbench_tasks.labellers import Pair, by_name
from overbench_tasks.records import Verdict
from overbench_tasks.refusal import label_reply

logger = logging.getLogger(__name__)


@register_filter("overbench_rules")
class RulesFilter(Filter):
    """Labels every reply with the rules of :mod:`overbench_tasks.refusal`."""

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
        """One list of JSON verdicts per document, in order: see :func:`verdict_to_json`."""
        return [
            [verdict_to_json(label_reply(reply, prompt=doc["prompt"])) for reply in replies]
            for replies, doc in zip(resps, docs, strict=True)
        ]


@register_filter("overbench_classifier")
class ClassifierFilter(Filter):
    """Labels every reply with a refusal detector: see :mod:`overbench_tasks.classifier`.

    Arguments are the fields of :class:`~overbench_tasks.classifier.ClassifierSettings`. The detector
    is loaded with the first reply, so after generation, and freed as soon as the replies are
    labelled, also when that fails.

    Raises:
        ClassifierError: when built. A later failure leaves the replies ``unscored``
            (``classifier_error``): it must not cost them.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._labeller = by_name("classifier", settings)
        self.versions = {"overbench_classifier": self._labeller.name.removeprefix("classifier:")}

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
        """One list of JSON verdicts per document, in order: see :func:`verdict_to_json`."""
        replies = [list(document) for document in resps]
        pairs: list[Pair] = [
            (doc["prompt"], reply) for document, doc in zip(replies, docs, strict=True) for reply in document
        ]
        with self._labeller:
            try:
                verdicts = self._labeller.label(pairs)
            except Exception:  # whatever a model from the hub can do wrong
                # As text: a log record that kept the traceback would keep the model.
                logger.error(
                    "overbench_classifier failed; the replies stay unscored\n%s", traceback.format_exc()
                )
                verdicts = [Verdict("unscored", "classifier_error", self._labeller.name)] * len(pairs)
        found = map(verdict_to_json, verdicts)
        return [[next(found) for _ in document] for document in replies]


def verdict_to_json(verdict: Verdict) -> str:
    """``{"label": ..., "reason": ..., "by": ..., "blocked": ...}``: readable in ``filtered_resps``,
    which lm-eval writes with ``str()``."""
    return json.dumps(asdict(verdict), ensure_ascii=False)


def verdict_from_json(text: str) -> Verdict:
    """The inverse of :func:`verdict_to_json`."""
    return Verdict(**json.loads(text))
