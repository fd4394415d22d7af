"""What stands behind the rates: the prompts refused most, the runs, the release."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from overbench.release.card import hard_rule
from overbench.report.report_inputs import Inputs
from overbench.report.sections.section import Section, category_name
from overbench.report.stats.rates import feature_key, osr_by_feature
from overbench_tasks.display import Cell, Piece, shares, table_of, text
from overbench_tasks.outcomes.short_names import shown_arguments
from overbench_tasks.text import number_of, visible

MOST_REFUSED = 200
"""Prompts in the table over all models: searched and turned over in a browser without delay."""
PER_MODEL = 15

STEPS = {
    "read": "prompts read",
    "exact_duplicates": "dropped: the same text once more",
    "near_duplicates": "dropped: near duplicates",
    "unsafe_near_duplicates": "dropped: near duplicates of unsafe prompts",
    "unsafe": "unsafe prompts, beside these and in none of their rates",
    "refused_by_none": "dropped: answered by all targets, refused by none",
    "kept": "prompts in overbench",
    "hard": "prompts in overbench_hard",
    "verdicts": "verdicts behind the cells",
    "cells": "cells: a prompt and a model that replied",
    "refused": "cells: refused",
    "unscored": "cells: unscored",
    "conflicts": "cells with differing verdicts",
    "replies_to_other_prompts": "replies to prompts that are not in the release",
}
"""The counts of a release in their order, in words."""

SHADES = 5
"""From 1, hardly ever refused, to this, always refused."""


def prompts_section(inputs: Inputs) -> Section | None:
    """The most refused prompts of the first set, trigger words shaded; None where nothing is refused."""
    import numpy as np

    matrix, names = inputs.main.matrix, inputs.names
    refused = matrix.values > 0
    votes, answers = matrix.refusals.sum(axis=1), matrix.scored.sum(axis=1)
    # Most refusals first, then the larger share of those asked, then by id: the same page each time.
    order = [int(row) for row in np.lexsort((matrix.prompt_ids, answers, -votes)) if votes[row]]
    if not order:
        return None
    named = matrix.named or ((),) * len(matrix.prompt_ids)
    words_of = [ours or theirs for ours, theirs in zip(matrix.features, named, strict=True)]
    rates = osr_by_feature(replace(matrix, features=tuple(words_of)), min_prompts=1)

    def prompt(row: int, of_words: Mapping[str, float]) -> Cell:
        shown = inputs.texts[matrix.prompt_ids[row]]
        words = {word: of_words.get(feature_key(word), math.nan) for word in words_of[row]}
        return Cell(shown, pieces=shaded(shown, words))

    overall = {one.feature: one.overall.low for one in rates}
    table = table_of(
        key="prompts",
        caption=f"The {number_of(min(len(order), MOST_REFUSED), 'prompt')} that most models refuse, of "
        f"{len(order):,} refused at all",
        columns=("Prompt", "Refused by", "Category", "Attributed words", "Named by its writer", "Models"),
        rows=(
            (
                prompt(row, overall),
                Cell(f"{shares(votes[row]).text} of {answers[row]}", float(votes[row])),
                category_name(matrix.categories[row]),
                ", ".join(matrix.features[row]),
                ", ".join(named[row]),
                _who([names[target] for target in matrix.targets], refused[row]),
            )
            for row in order[:MOST_REFUSED]
        ),
        ordered_by=(1, False),
        wide=True,
    )
    folded = []
    for column, target in enumerate(matrix.targets):
        if not (own := [row for row in order if refused[row, column]]):
            continue
        of_target = {one.feature: one.by_target[target].low for one in rates}
        shown = table_of(
            key=f"model-{column + 1}",
            caption=f"Prompts that {names[target]} refuses, the most refused by all models first",
            columns=("Prompt", "Reply", "Models that refuse it"),
            rows=(
                (
                    prompt(row, of_target),
                    inputs.quotes.get((matrix.prompt_ids[row], target)),
                    shares(float(votes[row])),
                )
                for row in own[:PER_MODEL]
            ),
            wide=True,
        )
        folded.append((f"{names[target]}: {len(own):,} refused", shown))
    return Section(
        "prompts",
        "The most refused prompts",
        (
            "The words of a prompt, those that attribution found or else those that its writer or file "
            "names, are shaded by how often prompts with them are refused at the least: by the "
            "lower end of the 95 % interval of that rate. A word of few prompts stays pale. Further down, "
            "for each model the prompts that it refuses and most others refuse too, shaded by its own "
            f"rates, with its reply where a log has it. Set: {inputs.main.name}.",
        ),
        tables=(table,),
        folded=tuple(folded),
        shades=tuple((f"{100 * n // SHADES}–{100 * (n + 1) // SHADES} %", n + 1) for n in range(SHADES)),
    )


def _who(targets: list[str], refused: Iterable[bool]) -> str:
    """The targets that refuse; where most do, those that don't."""
    chosen = [target for target, no in zip(targets, refused, strict=True) if no]
    others = [target for target in targets if target not in chosen]
    if len(targets) > 1 and not others:
        return "all"
    if len(chosen) > 2 and len(others) * 2 < len(chosen):
        return f"all but {', '.join(others)}"
    return ", ".join(chosen)


def shade(rate: float) -> int:
    """1 to :data:`SHADES` for a rate in [0, 1], in even steps; 1 for NaN, a word nobody has measured."""
    return 1 if math.isnan(rate) else min(SHADES, 1 + int(rate * SHADES))


def shaded(prompt: str, rates: Mapping[str, float]) -> tuple[Piece, ...]:
    """The prompt in pieces, its trigger words shaded.

    Args:
        prompt: any text. Characters that steer a page or a terminal come out as visible symbols.
        rates: trigger word or phrase -> refusal rate of the prompts that carry it. A word is found
            whole, in any case, with any white space between its parts; where two overlap, the one that
            starts first, then the longer one.

    Returns:
        the pieces, which together are ``visible(prompt)``.
    """
    by_key = {feature_key(word): rate for word, rate in rates.items() if word.strip()}
    longest_first = sorted(by_key, key=lambda word: (-len(word), word))
    if not longest_first:
        return ((visible(prompt), 0),)
    phrases = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest_first)
    pieces: list[Piece] = []
    after = 0
    for match in re.finditer(rf"(?<!\w)(?:{phrases})(?!\w)", prompt, re.IGNORECASE):
        if match.start() > after:
            pieces.append((visible(prompt[after : match.start()]), 0))
        pieces.append((visible(match[0]), shade(by_key.get(feature_key(match[0]), math.nan))))
        after = match.end()
    if after < len(prompt) or not pieces:
        pieces.append((visible(prompt[after:]), 0))
    return tuple(pieces)


def settings_section(inputs: Inputs) -> Section:
    rows = []
    for setting in inputs.settings:
        target = setting.target
        template = {True: "applied", False: "not applied", None: None}[target.apply_chat_template]
        rows.append(
            (
                inputs.names[target.target],
                inputs.names[target.checkpoint],
                target.model,
                shown_arguments(target.model_args),
                target.system_instruction,
                template,
                text(target.max_gen_toks),
                setting.decoding,
                target.label_version,
                target.lm_eval_version,
                setting.tasks,
                None if setting.seconds is None else f"{setting.seconds:,.0f} s",
            )
        )
    table = table_of(
        key="settings",
        caption="How each model was run; a dash where it is not known, or where its runs differ",
        columns=(
            "Model",
            "Checkpoint",
            "Backend",
            "Arguments",
            "System instruction",
            "Chat template",
            "New tokens",
            "Decoding",
            "Labelled by",
            "lm-eval",
            "Tasks",
            "Time",
        ),
        rows=rows,
        ordered_by=(0, True),
        wide=True,
    )
    return Section("settings", "Settings of the runs", tables=(table,))


def release_section(inputs: Inputs) -> Section | None:
    """Name, version, and what each step of aggregation left; None without a release."""
    if (release := inputs.release) is None:
        return None
    counts, settings = (
        found if isinstance(found := release.facts.get(part), dict) else {} for part in ("counts", "settings")
    )
    steps = [name for name in (*STEPS, *counts) if isinstance(counts.get(name), int)]
    table = table_of(
        key="release",
        caption="What each step of the aggregation left or found",
        columns=("Step", "Number"),
        rows=((STEPS.get(name, name.replace("_", " ")), counts[name]) for name in dict.fromkeys(steps)),
    )
    lines = [f"{release.name}, version {release.version}."]
    if settings.get("min_rejections") is not None:
        chosen = release.facts.get("hard_targets")
        who = (
            "all" if chosen is None else ", ".join(inputs.names.get(name, name) for name in chosen) or "none"
        )
        lines.append(
            f"A prompt is in overbench_hard if it is refused {hard_rule(settings)}. Models that chose: {who}."
        )
    return Section("release", "The release", tuple(map(visible, lines)), tables=(table,))
