"""The prompts of a source, as records: what each row says, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from generators.categories.keywords import OR_BENCH_CATEGORIES
from overbench.release.release_inputs import Log, PromptSource
from overbench_tasks.errors import OverbenchError
from overbench_tasks.outcomes.outcome_tables import OutcomeTable
from overbench_tasks.outcomes.release_files import UNSAFE_FILE
from overbench_tasks.outcomes.reply_rows import SAMPLES, reply_row
from overbench_tasks.outcomes.target_names import Aliases
from overbench_tasks.prompts import MAX_PROMPT_CHARS
from overbench_tasks.prompts.prompt_labels import told_label
from overbench_tasks.prompts.whose_features import refresh_round
from overbench_tasks.tables import read_table
from overbench_tasks.text import encodable

GIVEN: Final = "given by the source"
"""The evidence of a category that was not ours to decide."""


class PromptRecord(NamedTuple):
    """What one row of a source says of its prompt.

    A named tuple, since there are hundreds of thousands, which DuckDB takes by column.
    """

    prompt: str
    category: str | None = None
    category_evidence: str | None = None
    or_bench_category: str | None = None
    features: Sequence[str] = ()
    sources: Sequence[str] = ()
    seed_id: str | None = None
    round: int | None = None
    source_targets: Sequence[str] = ()
    generator: str | None = None
    moderation: str | None = None
    pair_id: str | None = None
    field: str | None = None
    form: str | None = None
    predicted_refusal_share: float | None = None
    unsafe: bool = False


def records(source: PromptSource, aliases: Aliases) -> Iterator[PromptRecord]:
    """All prompts of a source, in its order.

    Raises:
        OverbenchError: the file cannot be read, or a row cannot be used; names file and row.
    """
    if source.logs:
        yield from _logged_prompts(source.logs)
        return
    if source.outcomes:
        yield from _outcome_prompts(source.outcomes, source, aliases)
        return
    rows = 0
    try:
        for where, raw in read_table(source.file):
            rows += 1
            yield _record(raw, where, source, aliases)
        if source.release and source.release.has_unsafe:
            for where, raw in read_table(source.release.folder / UNSAFE_FILE):
                rows += 1
                yield _record({**raw, "prompt_label": "unsafe"}, where, source, aliases)
    except UnicodeDecodeError as error:
        raise OverbenchError(f"{source.file}: not UTF-8 ({error}). Save the file as UTF-8.") from error
    if not rows:
        raise OverbenchError(
            f"{source.file} has no rows. Expected at least one with a 'prompt'; or leave it out."
        )


def _outcome_prompts(table: OutcomeTable, source: PromptSource, aliases: Aliases) -> Iterator[PromptRecord]:
    """Each prompt of the table once, by its spelling, with the first row's category; twice where only another
    row calls it unsafe."""
    seen: set[tuple[str, bool]] = set()
    for where, row in table.rows():
        told = {name: row.raw.get(name) for name in ("prompt_label", "label", "category")}
        record = _record({"prompt": row.prompt, **told}, where, source, aliases)
        if (record.prompt, record.unsafe) not in seen:
            seen.add((record.prompt, record.unsafe))
            yield record


def _logged_prompts(logs: Sequence[Log]) -> Iterator[PromptRecord]:
    """Each prompt of the logs once, by its spelling and pair, with the category that its task gives it."""
    seen: set[tuple[str, str | None]] = set()
    for log in logs:
        for where, raw in read_table(log.run.file):
            row, doc = reply_row(raw, SAMPLES, where), raw["doc"]
            prompt = encodable(row.prompt or "")
            pair_id = _text(doc, "pair_id") if doc.get("pair_id") else None
            if (prompt, pair_id) not in seen and row.filter == log.run.filter:
                seen.add((prompt, pair_id))
                features = [encodable(str(word)) for word in doc.get("features") or ()]
                category = str(doc.get("category") or "") or None
                yield PromptRecord(
                    prompt,
                    category,
                    or_bench_category=_or_bench(category),
                    features=features,
                    round=refresh_round(doc),
                    pair_id=pair_id,
                    unsafe=row.prompt_label == "unsafe",
                )


def _record(raw: Mapping[str, Any], where: str, source: PromptSource, aliases: Aliases) -> PromptRecord:
    told = {column: value for column, value in raw.items() if value is not None and value != ""}
    prompt = told.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > MAX_PROMPT_CHARS:
        found = "none" if prompt is None else f"{str(prompt)[:60]!r}"
        raise OverbenchError(
            f"{where}: expected a 'prompt' with text, at most {MAX_PROMPT_CHARS:,} characters, found "
            f"{found}. Mend or remove the row."
        )
    if not prompt.isascii():
        # Lone surrogates can stand in JSON escapes but are no Unicode text, which Parquet holds.
        prompt = encodable(prompt)
    category = told.get("category")
    if category is not None and not isinstance(category, str):
        raise OverbenchError(f"{where}: expected 'category' to be text, got {category!r}. Mend the row.")
    evidence = _text(told, "category_evidence") or (GIVEN if category else None)
    or_bench_category = _text(told, "or_bench_category") or _or_bench(category)
    if (source.release or source.target) and not str(evidence).startswith((GIVEN, "judge:")):
        # By keywords, when the run or the release was written: today's list, or a judge, decides.
        category = evidence = or_bench_category = None
    if source.target:
        made_for = [source.target.target]
    else:
        column = "source_targets" if "source_targets" in told else "source_target"
        made_for = [aliases.name(target) for target in _words(told, column, where)]
    return PromptRecord(
        prompt=prompt,
        category=category,
        category_evidence=evidence,
        or_bench_category=or_bench_category,
        features=() if source.random_words else _words(told, "features", where),
        sources=_words(told, "sources", where) if source.release else [source.name],
        seed_id=_text(told, "seed_id"),
        round=_round(told, where),
        source_targets=made_for,
        generator=_text(told, "generator"),
        moderation=_moderation(told),
        pair_id=_text(told, "pair_id"),
        field=_text(told, "field"),
        form=_text(told, "form"),
        predicted_refusal_share=_predicted(told, where),
        unsafe=told_label(told, where) == "unsafe",
    )


def _or_bench(category: str | None) -> str | None:
    """A category that is one of OR-Bench's."""
    return category if category in OR_BENCH_CATEGORIES else None


def _text(told: Mapping[str, Any], column: str) -> str | None:
    return encodable(str(told[column])) if column in told else None


def _words(told: Mapping[str, Any], column: str, where: str) -> list[str]:
    value = told.get(column, [])
    if isinstance(value, str):
        parts = map(str.strip, value.split(";")) if column == "features" else [value]
        return list(filter(None, parts))
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return list(value)
    raise OverbenchError(f"{where}: expected {column!r} to be a list of texts, got {value!r}. Mend the row.")


def _round(told: Mapping[str, Any], where: str) -> int | None:
    try:
        return int(str(told["round"])) if "round" in told else None
    except ValueError:
        raise OverbenchError(
            f"{where}: expected 'round' to be a whole number, got {told['round']!r}. Mend the row."
        ) from None


def _predicted(told: Mapping[str, Any], where: str) -> float | None:
    if "predicted_refusal_share" not in told:
        return None
    try:
        share = float(told["predicted_refusal_share"])
    except (TypeError, ValueError):
        share = math.nan
    if not 0 <= share <= 1:
        raise OverbenchError(
            f"{where}: expected 'predicted_refusal_share' to be a number from 0 to 1, got "
            f"{told['predicted_refusal_share']!r}. Mend the row."
        )
    return share


def _moderation(told: Mapping[str, Any]) -> str | None:
    """As JSON text; text that is JSON already stays as it is."""
    votes = told.get("moderation")
    if isinstance(votes, str):
        try:
            json.loads(votes)
            return votes
        except ValueError:
            pass
    return None if votes is None else json.dumps(votes, ensure_ascii=False, sort_keys=True)
