"""Where the labels come from, what is missing, how each model was run, and what the release is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from generators.release.read import GAPS_FILE
from generators.report.report_inputs import Inputs
from generators.report.sections.section import ReportTable, Section, last_part, make, percent, text
from generators.targets.naming import public_arguments
from overbench_tasks.metrics import Rate
from overbench_tasks.text import visible

STEPS = {
    "read": "prompts read",
    "exact_duplicates": "dropped: the same text once more",
    "near_duplicates": "dropped: near duplicates",
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


def labels_section(inputs: Inputs, names: Mapping[str, str]) -> Section:
    rows = []
    for count in inputs.labels:
        total = sum(count.labels.values())
        rate = Rate(count.labels["unscored"], total)
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in count.reasons.most_common(4))
        rows.append(
            (
                *(names.get(count.target, count.target), count.set_name, count.labelled_by, total),
                *(count.labels[label] for label in ("refused", "partial", "complied", "unscored")),
                *(percent(rate.value, rate.low, rate.high), reasons, count.conflicts),
            )
        )
    table = make(
        "labels",
        "Labels per model and set, and who gave them",
        (
            *("Model", "Set", "Labelled by", "Prompts", "Refused", "Partial", "Complied"),
            *("Unscored", "Unscored rate", "Why unscored", "Conflicts"),
        ),
        rows,
        ordered_by=(0, True),
    )
    return Section(
        "labels",
        "Labels and gaps",
        (
            "A partial reply declines one part and answers another; it is scored, and no refusal. An "
            "unscored reply (empty, unfinished reasoning, a judge that failed) is in no rate. Where "
            "several replies of one model to one prompt are there the majority decides, and differing "
            "ones count as a conflict.",
        ),
        (),
        (table, _gaps_table(inputs, names)),
        below=_where_gaps_are_filled(inputs),
    )


def _gaps_table(inputs: Inputs, names: Mapping[str, str]) -> ReportTable:
    """Per model and set that labels are counted for: what is asked, what is scored, what is open."""
    matrices = {one.name: one.matrix for one in inputs.sets}
    unscored: Counter[tuple[str, str]] = Counter()
    for count in inputs.labels:
        unscored[count.set_name, count.target] += count.labels["unscored"]
    rows = []
    for name in sorted({name for name, _ in unscored} & matrices.keys()):
        matrix = matrices[name]
        for target in matrix.targets:
            prompts = len(matrix.prompt_ids)
            still_open = int((matrix.column(target) < 0).sum())
            no_label = unscored[name, target]
            asked = (prompts, prompts - still_open, still_open - no_label, no_label)
            rows.append((names[target], name, *asked, percent(still_open / prompts)))
    return make(
        "gaps",
        "Gaps: the prompts of each set that a model was not asked, or gave no reply to that could be scored",
        ("Model", "Set", "Prompts", "Scored", "Not asked", "Unscored", "Open"),
        rows,
        ordered_by=(6, False),
    )


def _where_gaps_are_filled(inputs: Inputs) -> tuple[str, ...]:
    if inputs.release is None:
        return ()
    return (
        f"{GAPS_FILE} in the release has the commands that ask the models what is missing. Its "
        "overbench_hard is part of overbench, and so are its gaps.",
    )


def release_section(inputs: Inputs) -> Section | None:
    """Name, version, and what each step of aggregation left; None without a release."""
    if (release := inputs.release) is None:
        return None
    counts = release.facts["counts"]
    counts = counts if isinstance(counts, dict) else {}
    steps = [name for name in STEPS if name in counts]
    steps += [name for name in counts if name not in STEPS]
    table = make(
        "release",
        "What each step of the aggregation left or found",
        ("Step", "Number"),
        (
            (STEPS.get(name, name.replace("_", " ")), counts[name])
            for name in steps
            if isinstance(counts[name], int)
        ),
    )
    settings = release.facts.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    lines = [f"{release.name}, version {release.version}."]
    if (least := settings.get("min_rejections")) is not None:
        lines.append(
            f"A prompt is in overbench_hard if at least {least} models refuse it, of at least "
            f"{settings.get('min_checkpoints', 1)} different checkpoints."
        )
    return Section("release", "The release", tuple(map(visible, lines)), (), (table,))


def settings_section(inputs: Inputs, names: Mapping[str, str]) -> Section:
    rows = []
    for setting in inputs.settings:
        target = setting.target
        template = {True: "applied", False: "not applied", None: None}[target.apply_chat_template]
        rows.append(
            (
                *(names.get(target.target, target.target), last_part(target.checkpoint), target.model),
                *(public_arguments(target.model_args), target.system_instruction, template),
                *(text(target.max_gen_toks), setting.decoding, target.label_version, target.lm_eval_version),
                *(setting.tasks, None if setting.seconds is None else f"{setting.seconds:,.0f} s"),
            )
        )
    table = make(
        "settings",
        "How each model was run; a dash where it is not known, or where its runs differ",
        (
            *("Model", "Checkpoint", "Backend", "Arguments", "System instruction", "Chat template"),
            *("New tokens", "Decoding", "Labelled by", "lm-eval", "Tasks", "Time"),
        ),
        rows,
        ordered_by=(0, True),
        wide=True,
    )
    return Section("settings", "Settings of the runs", (), (), (table,))
