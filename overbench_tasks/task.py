"""The lm-eval task class of all OVERBENCH tasks, and what it does with labelled replies.

Beyond lm-eval's own class it does what task files cannot: it drops the extra replies that
padding gives to short ranks, says what spoils replies (a chat model asked without its chat template,
reasoning that never ends: :mod:`overbench_tasks.advice`), keeps out of lm-eval's request cache, builds the
filters before anything is generated, so that their settings are checked in time, and writes the versions
of package, rules and judge into the results.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM

from overbench_tasks import __version__, advice
from overbench_tasks.filters import measures_evasion, verdict_from_json
from overbench_tasks.harness import GenerationTask
from overbench_tasks.metrics import Value, document_metrics
from overbench_tasks.providers.watch import is_unfinished, opens_reasoning, watch, with_opening
from overbench_tasks.refusal import RULES_VERSION


def process_results(doc: Mapping[str, Any], results: Sequence[Sequence[str]]) -> dict[str, Value]:
    """The metrics of one document.

    Args:
        doc: a row of :func:`~overbench_tasks.prompts.read_prompts`.
        results: one element, the JSON verdicts of the prompt's replies.

    Returns:
        see :func:`~overbench_tasks.metrics.document_metrics`.
    """
    verdicts = [verdict_from_json(text) for text in results[0]]
    return document_metrics(verdicts, doc["category"], evasion_measured=measures_evasion(results[0][0]))


class OverbenchTask(GenerationTask):
    """One set of prompts, asked zero-shot; named by ``class:`` in the task files."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config={key: value for key, value in config.items() if key != "class"})
        versions = {"overbench_version": __version__, "overbench_rules_version": RULES_VERSION}
        for ensemble in self.filter_ensembles:
            # lm-eval builds filters when it applies them, after hours of generating perhaps.
            built = [build() for build in ensemble.filters]
            ensemble.filters = [partial(_same, built_filter) for built_filter in built]
            for built_filter in built:
                versions |= getattr(built_filter, "versions", {})
        self.config.metadata = {**(self.config.metadata or {}), **versions}

    def build_all_requests(self, **options: Any) -> None:
        # lm-eval's request cache is keyed by task and tokenizer: it would hand the requests of one
        # prompt file to a run on another. Ours take milliseconds to build.
        super().build_all_requests(**(options | {"cache_requests": False}))
        if lm := _model_under_evaluation():
            advice.dies_of_a_block(lm)
            if not options.get("apply_chat_template"):
                advice.no_chat_template(lm)
            watch(lm)

    def apply_filters(self) -> list[Instance] | None:
        lm = _model_under_evaluation()
        keeps_reasoning = getattr(lm, "think_end_token", None) is None
        for instance in self._instances or []:
            # Distributed runs repeat a rank's last request until all ranks have equally many; the
            # copies' replies land behind the real ones and are not ours to score.
            instance.resps = instance.resps[: self.config.repeats]
            if keeps_reasoning and opens_reasoning(instance.args[0]):
                instance.resps = [with_opening(reply) for reply in instance.resps]
        replies = [reply for instance in self._instances or [] for reply in instance.resps]
        advice.empty_replies(lm, sum(not reply.strip() for reply in replies), len(replies))
        first = replies[: advice.FIRST_REPLIES]
        advice.unfinished_reasoning(lm, sum(map(is_unfinished, first)), len(first))
        filtered: list[Instance] | None = super().apply_filters()
        return filtered


def _same(built_filter: Filter) -> Filter:
    return built_filter


def _model_under_evaluation() -> Any:
    """The ``lm`` of the running ``lm_eval.evaluator.evaluate``, without its cache; None outside of it.

    lm-eval hands its model to no task hook, and the model arguments don't say whether a tokenizer
    has a chat template, so this reads the evaluator's own variable.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "lm_eval.evaluator" and "lm" in frame.f_locals:
            lm = frame.f_locals["lm"]
            return lm.lm if isinstance(lm, CachingLM) else lm
        frame = frame.f_back
    return None
