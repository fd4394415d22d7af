"""All that differs between lm-eval 0.4.13 and 0.5, so that nothing else asks for the version.

0.5 splits ``ConfigurableTask`` by kind of request, gives each filter pipeline a scorer of its own,
loads the data with the first request instead of with the task, and has a new ``Instance``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api import task
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean, mean_stderr


class _Task04(task.ConfigurableTask):
    @property
    def filter_ensembles(self) -> list[Any]:
        return list(self._filters)


_GenerateTask: Any = getattr(task, "GenerateTask", object)


class _Task05(_GenerateTask):
    _scorers: list[Any]

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.download(self.config.dataset_kwargs)

    @property
    def filter_ensembles(self) -> list[Any]:
        return [scorer.filter for scorer in self._scorers]

    def process_results(self, doc: Mapping[str, Any], results: Sequence[str]) -> Any:
        # 0.5 hands over the one request's replies, 0.4 a list of requests.
        return super().process_results(doc, [results])

    def override_metric(self, metric_name: str) -> None:
        # --predict_only: 0.5 would drop the filters with the metrics.
        labelling = self._scorers
        super().override_metric(metric_name)
        (unlabelled,) = self._scorers
        for scorer in labelling:
            scorer.metrics = unlabelled.metrics
        self._scorers, self.config.process_results = labelling, lambda doc, results: {metric_name: 0}

    def aggregate(self, bootstrap_iters: int | None = 100_000) -> tuple[dict[str, Any], int]:
        # 0.5 would bootstrap every aggregation but its own mean: minutes, for what has a closed form.
        results, count = super().aggregate(0)
        for scorer in self._scorers if bootstrap_iters else []:
            for metric in scorer.metrics:
                values = [document[metric.name] for document in scorer.reduced_docs.values()]
                if metric.aggregation is mean and len(values) > 1:
                    results[f"{metric.name}_stderr,{scorer.name}"] = mean_stderr(values)
        return results, count

    def _build_scorers(self) -> Any:
        # 0.5 warns of every metric that comes from process_results, as all of ours do.
        warnings = logging.getLogger("lm_eval.api.metrics.utils")
        warnings.disabled = True
        try:
            return super()._build_scorers()
        finally:
            warnings.disabled = False


GenerationTask: Any = _Task04 if _GenerateTask is object else _Task05
"""lm-eval's task that asks for replies, with what ours need of it the same in both versions:

- the prompts are loaded when the task is, so that a bad source stops a run early.
- ``filter_ensembles``: the ``FilterEnsemble`` of each entry of ``filter_list``.
- the function ``process_results`` gets one list of filtered replies per request of a document.
- ``--predict_only`` leaves the metrics out and still applies the filters.
"""


def model_request(
    kind: str, task_name: str, doc_id: int, doc: Mapping[str, Any], context: Any, asked: Any
) -> Instance:
    """One request for a method of lm-eval's models, asked once.

    Args:
        kind: the method: ``generate_until`` or ``loglikelihood``.
        task_name: the task it belongs to, for lm-eval's messages.
        doc_id: its number there.
        doc: the row it was made of.
        context: what the model receives.
        asked: lm-eval's generation settings (``until``, ``max_gen_toks``, ...), or the text whose
            likelihood is asked for.
    """
    return Instance(
        request_type=kind,
        doc=dict(doc),
        arguments=(context, dict(asked) if isinstance(asked, Mapping) else asked),
        idx=0,
        # 0.4 reads these three from the tuple, 0.5 from their own fields.
        metadata=(task_name, doc_id, 1),
        task_name=task_name,
        doc_id=doc_id,
    )
