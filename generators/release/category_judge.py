"""A language model that categorises prompts in place of the keyword list, where one is at hand.

The paper sorts by keywords "plus inspection"; this is the inspection, for sets that nobody can read through.
What can't be read as an answer leaves the prompt to its keywords: a failure is never a category.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from pydantic import Field

from generators.chat import Chat, Outcome
from generators.chat_cache import ChatError
from generators.chat_settings import EndpointSettings
from generators.prompt_template import FOLDER, PromptTemplate, as_data, conversation
from generators.release.categories import OR_BENCH_CATEGORIES, Categorised, OrBenchCategory, categorise
from generators.release.errors import ReleaseError
from overbench_tasks.judge_cache import Failure
from overbench_tasks.judge_prompt import without_reasoning
from overbench_tasks.records import CATEGORIES, Category

TEMPLATE: Final = FOLDER / "category.jinja"

_ANSWER = re.compile(rf"CATEGORY: ({'|'.join(CATEGORIES)}) / ({'|'.join(OR_BENCH_CATEGORIES)})\.?")


class CategoryJudgeSettings(EndpointSettings):
    """One language model that categorises."""

    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(32, ge=1, description="of the answer; more for a model that reasons first")
    prompt_file: Path | None = Field(None, description="a Jinja template with prompt; default: ours")
    prompt_chars: int = Field(2000, ge=100, description="of a longer prompt head and tail are shown")


def judge_categories(
    prompts: Sequence[str],
    features: Sequence[Sequence[str]],
    settings: CategoryJudgeSettings,
    cache_file: Path,
) -> list[Categorised]:
    """The judge's labels with ``judge:<model>`` as evidence, or the keywords' where it gave none.

    Args:
        prompts: any text.
        features: the trigger words of each, for :func:`~generators.release.categories.categorise`.
        settings: who is asked.
        cache_file: what it says is kept here (SQLite), so that asking again costs nothing.

    Returns:
        one per prompt, in order.

    Raises:
        ReleaseError: no key, a template that can't be used, or the endpoint turned all requests away. What
            was said is kept.
    """
    try:
        template = PromptTemplate(
            settings.prompt_file or TEMPLATE, {"prompt": "a sample prompt"}, ("prompt",)
        )
        requests = [
            settings.request(
                conversation(template.render(prompt=as_data(prompt, settings.prompt_chars))),
                temperature=settings.temperature,
            )
            for prompt in prompts
        ]
        chat = Chat(settings, cache_file)
        outcomes = chat.ask(requests)
    except ChatError as error:
        raise ReleaseError(f"Prompts can't be categorised by a judge. {error}") from error
    if chat.stopped_because:
        raise ReleaseError(
            f"judge:{settings.model} stopped answering: {chat.stopped_because}. What it said is kept. Mend "
            "this and run again, or go without a judge."
        )
    evidence = f"judge:{settings.model}"
    return [
        _parsed(outcome, evidence) or categorise(prompt, words)
        for outcome, prompt, words in zip(outcomes, prompts, features, strict=True)
    ]


def _parsed(outcome: Outcome, evidence: str) -> Categorised | None:
    """The labels of an answer whose last line is the whole of the asked form; None of any other."""
    if isinstance(outcome, Failure) or outcome.finish_reason in ("declined", "length"):
        return None
    last = without_reasoning(outcome.text).strip().rpartition("\n")[2].strip(" \t\r")
    if (match := _ANSWER.fullmatch(last)) is None:
        return None
    return Categorised(cast(Category, match[1]), cast(OrBenchCategory, match[2]), evidence)
