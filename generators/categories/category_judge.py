"""A language model that categorises prompts in place of the keyword list, where one is at hand.

The paper sorts by keywords "plus inspection"; this is the inspection, for sets that nobody can read through.
What can't be read as an answer leaves the prompt to its keywords: a failure is never a category.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from pydantic import Field

from generators.categories.keywords import OR_BENCH_CATEGORIES, Categorised, OrBenchCategory, categorise
from overbench_tasks.chat.cache import default_cache_file
from overbench_tasks.chat.client import ChatClient
from overbench_tasks.chat.endpoint import EndpointSettings, concerning, settings_from_words
from overbench_tasks.chat.response import Failure, Outcome
from overbench_tasks.chat.template import PromptTemplate, conversation
from overbench_tasks.errors import OverbenchError
from overbench_tasks.records import CATEGORIES, Category
from overbench_tasks.text import as_data, without_reasoning

_DEFAULT_TEMPLATE: Final = Path(__file__).with_name("category.jinja")
_TROUBLE: Final = "Prompts can't be categorised by a judge."

_ANSWER = re.compile(rf"CATEGORY: ({'|'.join(CATEGORIES)}) / ({'|'.join(OR_BENCH_CATEGORIES)})\.?")


class CategoryJudgeSettings(EndpointSettings):
    """One language model that categorises."""

    max_tokens: int = Field(32, ge=1, description="of the answer; more for a model that reasons first")
    prompt_chars: int = Field(2000, ge=100, description="of a longer prompt head and tail are shown")


def read_settings(text: str) -> CategoryJudgeSettings:
    """A judge's settings as the command line has them: ``model=NAME,base_url=URL``, as lm-eval's arguments.

    Raises:
        OverbenchError: an unknown setting or a value that it does not take. No value is repeated, since
            one may be a key that does not belong here.
    """
    return settings_from_words(CategoryJudgeSettings, text, "--category_judge")


def public_settings(settings: CategoryJudgeSettings) -> dict[str, Any]:
    """What ``release.json`` tells: all that shapes an answer, and neither address nor the key's name."""
    told = settings.model_dump(mode="json", include={"model", "temperature", "max_tokens", "prompt_chars"})
    return {**told, "prompt": _template(settings).version}


def evidence_of(settings: CategoryJudgeSettings) -> str:
    """What ``category_evidence`` holds where this judge decided."""
    return f"judge:{settings.model}"


def check_judge(settings: CategoryJudgeSettings) -> None:
    """Find what would make every request fail, before anything long starts. Costs nothing.

    Raises:
        OverbenchError: no key, one that is not accepted, a template or a cache that can't be used, nobody at
            the URL, or a model that the endpoint does not list.
    """
    with concerning(_TROUBLE):
        _template(settings)
        _client(settings).check()


def _template(settings: CategoryJudgeSettings) -> PromptTemplate:
    return PromptTemplate(settings.prompt_file, _DEFAULT_TEMPLATE, {"prompt": "a sample prompt"}, ("prompt",))


def _client(settings: CategoryJudgeSettings) -> ChatClient:
    return ChatClient(settings, default_cache_file("category_judge.sqlite3"))


def judge_categories(
    prompts: Sequence[str],
    features: Sequence[Sequence[str]],
    settings: CategoryJudgeSettings,
) -> list[Categorised]:
    """The judge's labels with ``judge:<model>`` as evidence, or the keywords' where it gave none.

    Args:
        prompts: any text.
        features: the trigger words of each, for :func:`~generators.categories.keywords.categorise`.
        settings: who is asked. What it says is kept in ``category_judge.sqlite3`` in ``$OVERBENCH_CACHE``
            or else in the user's cache folder, so that asking again costs nothing.

    Returns:
        one per prompt, in order.

    Raises:
        OverbenchError: no key, a template that can't be used, or the endpoint answers nothing. What was said
            is kept.
    """
    with concerning(_TROUBLE):
        template = _template(settings)
        shown = [template.render(prompt=as_data(prompt, settings.prompt_chars)) for prompt in prompts]
        client = _client(settings)
        outcomes = client.ask([settings.request(conversation(text)) for text in shown])
    evidence = evidence_of(settings)
    failures = [outcome.detail for outcome in outcomes if isinstance(outcome, Failure)]
    if client.stopped_because or (failures and len(failures) == len(outcomes)):
        raise OverbenchError(
            f"{evidence} doesn't answer: {client.stopped_because or failures[0]}. What it said is kept. Mend "
            "this and run again, or go without a judge."
        )
    return [
        _parsed(outcome, evidence) or categorise(prompt, words)
        for outcome, prompt, words in zip(outcomes, prompts, features, strict=True)
    ]


def _parsed(outcome: Outcome, evidence: str) -> Categorised | None:
    """The labels of an answer whose last line is the whole of the asked form; None of any other."""
    if isinstance(outcome, Failure) or outcome.blocked or outcome.finish_reason == "length":
        return None
    last = without_reasoning(outcome.text).strip().rpartition("\n")[2].strip(" \t\r")
    if (match := _ANSWER.fullmatch(last)) is None:
        return None
    return Categorised(cast(Category, match[1]), cast(OrBenchCategory, match[2]), evidence)
