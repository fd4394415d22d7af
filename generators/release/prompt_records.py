"""The prompts of a source, as records: what each row says, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from generators.release.release_inputs import Log, PromptSource
from generators.targets.naming import Aliases
from overbench_tasks.errors import OverbenchError
from overbench_tasks.logs import SAMPLES, reply_row
from overbench_tasks.prompts import MAX_PROMPT_CHARS
from overbench_tasks.records import CATEGORIES, LABELS
from overbench_tasks.tables import read_table
from overbench_tasks.text import encodable

GIVEN: Final = "given by the source"
"""The evidence of a category that was not ours to decide."""


class PromptRecord(NamedTuple):
    """One row of a source; ``label`` and ``reply`` are those of the run's own target.

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
    label: str | None = None
    reply: str | None = None


def records(source: PromptSource, aliases: Aliases) -> Iterator[PromptRecord]:
    """All prompts of a source, in its order.

    Raises:
        OverbenchError: the file cannot be read, or a row cannot be used; names file and row.
    """
    if source.logs:
        yield from _logged_prompts(source.logs)
        return
    rows = 0
    try:
        for where, raw in read_table(source.file):
            rows += 1
            yield _record(raw, where, source, aliases)
    except UnicodeDecodeError as error:
        raise OverbenchError(f"{source.file}: not UTF-8 ({error}). Save the file as UTF-8.") from error
    if not rows:
        raise OverbenchError(
            f"{source.file} has no rows. Expected at least one with a 'prompt'; or leave it out."
        )


def _logged_prompts(logs: Sequence[Log]) -> Iterator[PromptRecord]:
    """Each prompt of the logs once, by its spelling, with the category that its task gives it."""
    seen: set[str] = set()
    for log in logs:
        for where, raw in read_table(log.run.file):
            row, doc = reply_row(raw, SAMPLES, where), raw["doc"]
            prompt = encodable(row.prompt or "")
            if prompt not in seen and row.filter == log.run.filter:
                seen.add(prompt)
                features = [encodable(str(word)) for word in doc.get("features") or ()]
                yield PromptRecord(prompt, _text(doc.get("category")), features=features)


def _record(raw: Mapping[str, Any], where: str, source: PromptSource, aliases: Aliases) -> PromptRecord:
    prompt = raw.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > MAX_PROMPT_CHARS:
        found = "none" if "prompt" not in raw else f"{str(prompt)[:60]!r}"
        raise OverbenchError(
            f"{where}: expected a 'prompt' with text, at most {MAX_PROMPT_CHARS:,} characters, found "
            f"{found}. Mend or remove the row."
        )
    if not prompt.isascii():
        # Lone surrogates can stand in JSON escapes but are no Unicode text, which Parquet holds.
        prompt = encodable(prompt)
    label = raw.get("label") if source.target else None
    if source.target and label not in LABELS:
        raise OverbenchError(
            f"{where}: expected a 'label' out of {', '.join(LABELS)}, as a refresh run exports it, found "
            f"{label!r}. Export the run again: overbench refresh {source.file.parent.parent}."
        )
    given = _given_category(raw.get("category"), where)
    evidence = _text(raw.get("category_evidence")) or (GIVEN if given else None)
    or_bench_category = _text(raw.get("or_bench_category"))
    if (source.release or source.target) and not str(evidence).startswith((GIVEN, "judge:")):
        # By keywords, when the run or the release was written: today's list, or a judge, decides.
        given = evidence = or_bench_category = None
    return PromptRecord(
        prompt=prompt,
        category=given,
        category_evidence=evidence,
        or_bench_category=or_bench_category,
        features=_words(raw.get("features"), "features", where),
        sources=_words(raw.get("sources"), "sources", where) if source.release else [source.name],
        seed_id=_text(raw.get("seed_id")),
        round=_number(raw.get("round"), where),
        source_targets=_source_targets(raw, where, source, aliases),
        generator=_text(raw.get("generator")),
        moderation=_json(raw.get("moderation")),
        label=label,
        reply=_text(raw.get("reply")) or "",
    )


def _source_targets(raw: Mapping[str, Any], where: str, source: PromptSource, aliases: Aliases) -> list[str]:
    if source.target is not None:
        return [source.target.target]
    several = raw.get("source_targets")
    named = _words(raw.get("source_target") if several is None else several, "source_targets", where)
    return [aliases.name(target) for target in named]


def _given_category(value: object, where: str) -> str | None:
    if value is None or value == "":
        return None
    if value not in CATEGORIES:
        raise OverbenchError(
            f"{where}: expected 'category' to be one of {', '.join(CATEGORIES)}, or none, got {value!r}. "
            "Map it to one of these or drop the column; aggregate then assigns one."
        )
    return str(value)


def _words(value: object, column: str, where: str) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return (
            [word.strip() for word in value.split(";") if word.strip()] if column == "features" else [value]
        )
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return list(value)
    raise OverbenchError(f"{where}: expected {column!r} to be a list of texts, got {value!r}. Mend the row.")


def _number(value: object, where: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(str(value))
    except ValueError:
        raise OverbenchError(
            f"{where}: expected 'round' to be a whole number, got {value!r}. Mend the row."
        ) from None


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _json(value: object) -> str | None:
    """As JSON text; text that is JSON already stays as it is."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            json.loads(value)
            return value
        except ValueError:
            pass
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
