"""What reaches into lm-eval's inner workings, under whichever version is installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import REPLIES, ScriptedLM, evaluate
from overbench_tasks.lm_eval_compat import (
    hear_replies,
    hearing_replies,
    model_under_evaluation,
    without_seed,
)


class CacheHook:
    def __init__(self) -> None:
        self.dbdict: dict[Any, Any] = {}

    def add_partial(self, attr: str, req: Any, res: Any) -> None:
        self.dbdict[attr, req] = res


def test_replies_are_heard_by_the_last_listener_and_still_reach_the_cache() -> None:
    cache = CacheHook()
    lm, first, second, inside = SimpleNamespace(cache_hook=cache), [], [], []
    hear_replies(lm, lambda *reply: first.append(reply))
    hear_replies(lm, lambda *reply: second.append(reply))
    with hearing_replies(lm, lambda *reply: inside.append(reply)):
        lm.cache_hook.add_partial("generate_until", ("a", ()), "A")
    lm.cache_hook.add_partial("generate_until", ("b", ()), None)
    lm.cache_hook.add_partial("loglikelihood", ("c", ""), (0.0, True))
    assert (first, second, inside) == ([], [("a", "A"), ("b", None)], [("a", "A")])
    assert len(cache.dbdict) == 3 and lm.cache_hook.dbdict is cache.dbdict


def test_after_a_failure_the_listener_is_gone() -> None:
    cache = CacheHook()
    lm = SimpleNamespace(cache_hook=cache)
    with pytest.raises(KeyError), hearing_replies(lm, lambda *reply: None):
        raise KeyError
    assert lm.cache_hook is cache


def test_a_model_without_a_hook_tells_nobody() -> None:
    lm = SimpleNamespace()
    hear_replies(lm, lambda *reply: None)
    with hearing_replies(lm, lambda *reply: None):
        assert vars(lm) == {}


def test_no_seed_is_sent() -> None:
    lm = SimpleNamespace(_create_payload=lambda text, **settings: {"text": text, "seed": 7, **settings})
    without_seed(lm)
    assert lm._create_payload("hello", temperature=1) == {"text": "hello", "temperature": 1}


def test_the_model_is_found_while_it_is_evaluated_and_only_then(prompt_source: Path) -> None:
    models: list[Any] = []

    class LookingLM(ScriptedLM):
        def generate_until(self, requests: Any) -> list[str]:
            models.append(model_under_evaluation())
            return super().generate_until(requests)

    lm = LookingLM(REPLIES)
    evaluate(lm, prompt_source)
    assert models == [lm] and model_under_evaluation() is None
