"""The category columns of a release: what a source gave stays, else a judge decides, else the keywords."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.categories.keywords import Categorised, categorise

if TYPE_CHECKING:
    import pyarrow

    from generators.release.workspace import Workspace

Columns = dict[str, list[str | None]]


def category_columns(work: Workspace, batch: pyarrow.RecordBatch) -> Columns:
    """Category, its evidence and OR-Bench's label of every prompt.

    With a judge, ``counts`` get how many prompts it was asked and how many of these it has filed.

    Args:
        batch: with the columns prompt, features, category, category_evidence, or_bench_category.

    Raises:
        OverbenchError: the judge does not answer.
    """
    found: Columns = {"category": [], "category_evidence": [], "or_bench_category": []}
    rows = list(zip(*(batch[name].to_pylist() for name in ("prompt", "features", *found)), strict=True))
    judged = iter(_judged(work, [(prompt, features) for prompt, features, given, *_ in rows if not given]))
    for prompt, features, category, evidence, or_bench in rows:
        ours = categorise(prompt, features) if category or work.category_judge is None else next(judged)
        found["category"].append(category or ours.category)
        found["category_evidence"].append(evidence if category else ours.evidence)
        found["or_bench_category"].append(or_bench or ours.or_bench_category)
    return found


def _judged(work: Workspace, prompts: list[tuple[str, list[str]]]) -> list[Categorised]:
    if work.category_judge is None:
        return []
    from generators.categories.category_judge import default_cache_file, evidence_of, judge_categories

    settings = work.category_judge
    asked, features = [prompt for prompt, _ in prompts], [words for _, words in prompts]
    found = judge_categories(asked, features, settings, default_cache_file())
    filed = sum(one.evidence == evidence_of(settings) for one in found)
    for name, n in (("judge_asked", len(prompts)), ("judge_filed", filed)):
        work.counts[name] = work.counts.get(name, 0) + n
    return found


def unreadable(work: Workspace) -> str | None:
    """A note on the prompts that the judge was asked and that the keywords had to file; None: none."""
    n = work.counts.get("judge_asked", 0) - work.counts.get("judge_filed", 0)
    return f"{n:,} answers of the category judge were none; these prompts went by keywords." if n else None
