"""Where the labels come from, and how each model was run."""

from __future__ import annotations

from collections.abc import Mapping

from generators.release.rates import Rate
from generators.report.inputs import Inputs
from generators.report.sections import Section, last_part
from generators.report.table import make, number, percent, text


def labels_section(inputs: Inputs, names: Mapping[str, str]) -> Section:
    rows = []
    for count in inputs.labels:
        total = sum(count.labels.values())
        unscored = count.labels["unscored"]
        rate = Rate(unscored, total)
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in count.reasons.most_common(4))
        rows.append(
            [
                text(names.get(count.target, count.target)),
                text(count.set_name),
                text(count.labelled_by),
                number(total),
                number(count.labels["refused"]),
                number(count.labels["partial"]),
                number(count.labels["complied"]),
                number(unscored),
                percent(rate.value, rate.low, rate.high),
                text(reasons),
                number(count.conflicts),
            ]
        )
    table = make(
        "labels",
        "Labels per model and set, and who gave them",
        (
            "Model",
            "Set",
            "Labelled by",
            "Prompts",
            "Refused",
            "Partial",
            "Complied",
            "Unscored",
            "Unscored rate",
            "Why unscored",
            "Conflicts",
        ),
        rows,
        ordered_by=(0, True),
    )
    return Section(
        "labels",
        "Where the labels come from",
        (
            "A partial reply declines one part and answers another; it is scored, and no refusal. An "
            "unscored reply (empty, unfinished reasoning, a judge that failed) is in no rate. Where "
            "several replies of one model to one prompt are there the majority decides, and differing "
            "ones count as a conflict.",
        ),
        (),
        (table,),
    )


def settings_section(inputs: Inputs, names: Mapping[str, str]) -> Section:
    from generators.release.naming import public_arguments

    rows = []
    for setting in inputs.settings:
        target = setting.target
        template = {True: "applied", False: "not applied", None: None}[target.apply_chat_template]
        rows.append(
            [
                text(names.get(target.target, target.target)),
                text(last_part(target.checkpoint)),
                text(target.model),
                text(public_arguments(target.model_args)),
                text(target.system_instruction),
                text(template),
                text(target.max_gen_toks),
                text(setting.decoding),
                text(target.label_version),
                text(target.lm_eval_version),
                text(setting.tasks),
                text(None if setting.seconds is None else f"{setting.seconds:,.0f} s"),
            ]
        )
    table = make(
        "settings",
        "How each model was run; a dash where it is not known, or where its runs differ",
        (
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
        rows,
        ordered_by=(0, True),
        wide=True,
    )
    return Section("settings", "Settings of the runs", (), (), (table,))
