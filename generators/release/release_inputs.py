"""What a release is made of: refresh runs, files of prompts, earlier releases.

    a refresh run      its exported prompts, and the target's own replies to them as verdicts
    a prompt file      JSONL, CSV or Parquet with a ``prompt`` and any columns of a prompt record
    a release          its prompts, and its matrix as verdicts

``refused_by`` in a prompt file is no verdict: it names who refused but not who was asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from generators.release.read import MATRIX_FILE, PROMPTS_FILE, Release, is_release, read_columns, read_release
from generators.targets.naming import Aliases, TargetRecord, name_target
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompt_sets import ACCEPTED_NAME, REFRESHED_NAME
from overbench_tasks.prompts import MAX_PROMPT_CHARS
from overbench_tasks.records import CATEGORIES, LABELS
from overbench_tasks.tables import SUFFIXES, read_table
from overbench_tasks.text import encodable

Which = Literal["accepted", "verified"]
"""Of a refresh run: every prompt that passed its gates, or those that its target refused as well."""

GIVEN: Final = "given by the source"
"""The evidence of a category that was not ours to decide."""

_EXPORTS: Final = {"accepted": ACCEPTED_NAME, "verified": REFRESHED_NAME}


@dataclass(frozen=True)
class Source:
    """Where prompts come from.

    Attributes:
        name: what ``sources`` calls it: the last part of its path, so that moving it changes nothing.
        file: the file of prompts.
        target: of a refresh run, the target it was made for, by its short name.
        long_names: the names of its targets before aliases.
        labelled_by: of a refresh run, who labelled its replies; of a release, who labelled its cells.
        release: of a release, the release.
    """

    name: str
    file: Path
    target: TargetRecord | None = None
    long_names: tuple[str, ...] = ()
    labelled_by: tuple[str, ...] = ()
    release: Release | None = field(default=None, repr=False)


class PromptRecord(NamedTuple):
    """One row of a source; ``label`` and ``reply`` are those of the run's own target.

    A named tuple, since there are hundreds of thousands, which DuckDB takes by column.
    """

    prompt: str
    category: str | None
    category_evidence: str | None
    or_bench_category: str | None
    features: list[str]
    sources: list[str]
    seed_id: str | None
    round: int | None
    source_targets: list[str]
    generator: str | None
    moderation: str | None
    label: str | None
    reply: str | None


def find_sources(paths: list[Path], which: Which, aliases: Aliases) -> list[Source]:
    """What each path is.

    Raises:
        OverbenchError: nothing there, or nothing that holds prompts.
    """
    return [_source(path.expanduser(), which, aliases) for path in paths]


def _source(path: Path, which: Which, aliases: Aliases) -> Source:
    if is_release(path):
        release = read_release(path)
        cells = read_columns(path / MATRIX_FILE, {"labelled_by": "string"})
        labellers = tuple(sorted(set(cells["labelled_by"].unique().to_pylist()) - {None}))
        names = tuple(target.target for target in release.targets())
        return Source(_name(path), path / PROMPTS_FILE, None, names, labellers, release)
    if (path / "run.sqlite").is_file():
        return _run(path, which, aliases)
    if path.is_file() and path.suffix in SUFFIXES:
        return Source(path.name, path)
    what = "nothing" if not path.exists() else "a folder that is neither" if path.is_dir() else "another file"
    raise OverbenchError(
        f"Expected a refresh run, a release, or a prompt file ({', '.join(SUFFIXES)}) at {path}, "
        f"found {what}. Check the path."
    )


def _name(path: Path) -> str:
    return path.resolve().name


def _run(folder: Path, which: Which, aliases: Aliases) -> Source:
    from generators.refresh.store import Store

    settings = _settings(folder)
    file = folder / "data" / _EXPORTS[which]
    if not file.is_file():
        raise OverbenchError(
            f"The run {folder} has no {file.name}: it has not exported any {which} prompts. Let it finish "
            f"(overbench refresh {folder}), or leave it out."
        )
    with Store(folder, read_only=True) as store:
        rows = store.rows("SELECT DISTINCT labeller FROM labels ORDER BY labeller")
        labellers = tuple(str(row["labeller"]) for row in rows)
    asked = settings["target"]
    target = name_target(
        str(asked.get("model", "hf")),
        asked["model_args"],
        asked.get("system_instruction"),
        bool(asked.get("apply_chat_template", True)),
        max_gen_toks=asked.get("max_gen_toks"),
        label_version=labellers[0] if len(labellers) == 1 else None,
    )
    short = aliases.target(target)
    return Source(_name(folder), file, short, (target.target,), labellers)


def _settings(folder: Path) -> dict[str, Any]:
    import yaml

    file = folder / "settings.yaml"
    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
        if not isinstance(settings["target"]["model_args"], str):
            raise TypeError("model_args is no text")
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError) as error:
        raise OverbenchError(
            f"{file}: expected the settings of a refresh run with target.model_args, could not read them: "
            f"{error}. Is the run directory complete?"
        ) from error
    return dict(settings)


def records(source: Source, aliases: Aliases) -> Iterator[PromptRecord]:
    """All prompts of a source, in its order.

    Raises:
        OverbenchError: the file cannot be read, or a row cannot be used; names file and row.
    """
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


def _record(raw: Mapping[str, Any], where: str, source: Source, aliases: Aliases) -> PromptRecord:
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


def _source_targets(raw: Mapping[str, Any], where: str, source: Source, aliases: Aliases) -> list[str]:
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
