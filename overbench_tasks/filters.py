"""lm-eval filters that turn replies into verdicts, written as JSON so that sample logs keep them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter

from overbench_tasks.judge import Judge, JudgeSettings
from overbench_tasks.records import Verdict
from overbench_tasks.refusal import label_reply

# The one logger whose INFO lines a run of lm-eval shows.
_eval_logger = logging.getLogger("lm_eval.overbench")


@register_filter("overbench_rules")
class RulesFilter(Filter):
    """Labels every reply with the rules of :mod:`overbench_tasks.refusal`."""

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
        """One list of JSON verdicts per document, in order: see :func:`verdict_to_json`."""
        return [
            [verdict_to_json(label_reply(reply, prompt=doc["prompt"])) for reply in replies]
            for replies, doc in zip(resps, docs, strict=True)
        ]


@register_filter("overbench_judge")
class JudgeFilter(Filter):
    """Labels every reply with :class:`~overbench_tasks.judge.Judge`, many at once.

    Arguments are the fields of :class:`~overbench_tasks.judge_settings.JudgeSettings`.

    Raises:
        JudgeSettingsError: when built; afterwards a reply that can't be judged is ``unscored``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._judge = Judge(JudgeSettings.resolve(settings))
        self.versions = self._judge.versions

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
        """One list of JSON verdicts per document, in order: see :func:`verdict_to_json`."""
        replies = list(resps)
        exchanges = [(doc.get("prompt"), r) for some, doc in zip(replies, docs, strict=True) for r in some]
        verdicts = iter(self._judge.label(exchanges))
        _eval_logger.info(self._judge.summary)
        return [[verdict_to_json(next(verdicts)) for _ in some] for some in replies]


def verdict_to_json(verdict: Verdict) -> str:
    """``{"label": ..., "reason": ..., "by": ..., "blocked": ...}``: readable in ``filtered_resps``,
    which lm-eval writes with ``str()``."""
    return json.dumps(asdict(verdict), ensure_ascii=False)


def verdict_from_json(text: str) -> Verdict:
    """The inverse of :func:`verdict_to_json`."""
    return Verdict(**json.loads(text))
