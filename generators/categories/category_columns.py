"""The categories of a release's prompts: as its sources have them, else by a judge, else by keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from generators.categories.keywords import Categorised, categorise

if TYPE_CHECKING:
    from generators.categories.category_judge import CategoryJudgeSettings

GIVEN_COLUMNS = ("category", "category_evidence", "or_bench_category")


class CategoryColumns(NamedTuple):
    """The columns of some prompts, how many of them a judge was asked, and how many of these it has filed."""

    columns: dict[str, list[str | None]]
    asked: int
    filed: int


def category_columns(
    prompts: Mapping[str, Sequence[Any]], judge: CategoryJudgeSettings | None = None
) -> CategoryColumns:
    """Category, its evidence and OR-Bench's label of every prompt.

    Args:
        prompts: the columns prompt, features, and those of :data:`GIVEN_COLUMNS`, None where none is given.
        judge: files the prompts that come without a category; None: the keywords do.

    Raises:
        OverbenchError: the judge does not answer.
    """
    rows = list(zip(*(prompts[name] for name in ("prompt", "features", *GIVEN_COLUMNS)), strict=True))
    open_rows = [(prompt, features) for prompt, features, given, *_ in rows if not given]
    judged, filed = _judged(open_rows, judge) if judge and open_rows else ([], 0)
    left = iter(judged)
    found: dict[str, list[str | None]] = {name: [] for name in GIVEN_COLUMNS}
    for prompt, features, category, evidence, or_bench in rows:
        ours = categorise(prompt, features) if category or judge is None else next(left)
        found["category"].append(category or ours.category)
        found["category_evidence"].append(evidence if category else ours.evidence)
        found["or_bench_category"].append(or_bench or ours.or_bench_category)
    return CategoryColumns(found, len(judged), filed)


def _judged(
    rows: Sequence[tuple[str, Sequence[str]]], judge: CategoryJudgeSettings
) -> tuple[list[Categorised], int]:
    from generators.categories.category_judge import default_cache_file, evidence_of, judge_categories

    prompts, features = zip(*rows, strict=True)
    found = judge_categories(list(prompts), list(features), judge, default_cache_file())
    return found, sum(one.evidence == evidence_of(judge) for one in found)
