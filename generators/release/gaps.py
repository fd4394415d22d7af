"""Which prompts of a release which target has not answered, and the commands that fill the gaps.

A missing reply is never an answer: it is in no rate. An ``unscored`` one counts as not answered, too.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generators.release.read import GAPS_FILE, GAPS_FOLDER
from generators.release.release_inputs import described
from generators.targets.naming import TargetRecord
from overbench_tasks.prompts.refreshed import readable
from overbench_tasks.text import markdown_cell, markdown_line

if TYPE_CHECKING:
    from generators.release.build import Workspace


@dataclass(frozen=True)
class Gap:
    """What one target has left open.

    Attributes:
        missing: prompts that it was not asked.
        unscored: prompts whose replies have no label.
        file: the prompts of both kinds, relative to the release; None where there are none.
    """

    target: str
    missing: int
    unscored: int
    file: str | None


def find(work: Workspace) -> list[Gap]:
    """The gaps of every target, also of those that prompts were made for but that nobody asked."""
    names = list(work.targets)
    strangers = work.connection.execute(
        """SELECT DISTINCT unnest(source_targets) AS name FROM prompts SEMI JOIN kept USING (number)
           ORDER BY name"""
    ).fetchall()
    found = [_gap(work, number, name) for number, name in enumerate(names)]
    kept = work.counts["kept"]
    return found + [Gap(name, kept, 0, None) for (name,) in strangers if name not in names]


def _gap(work: Workspace, number: int, name: str) -> Gap:
    [(missing, unscored)] = work.connection.execute(
        """SELECT count(*) FILTER (label IS NULL), count(*) FILTER (label = 'unscored')
           FROM kept LEFT JOIN (SELECT * FROM cells WHERE target = ?) USING (number)""",
        [number],
    ).fetchall()
    file = f"{GAPS_FOLDER}/{number + 1:02}-{readable(name)}.jsonl" if missing + unscored else None
    return Gap(name, missing, unscored, file)


def write(work: Workspace, folder: Path, found: list[Gap]) -> None:
    """``gaps.md`` and a prompt file per target with gaps."""
    for number, gap in enumerate(found):
        if gap.file is not None:
            (folder / GAPS_FOLDER).mkdir(exist_ok=True)
            _write_prompts(work, number, folder / gap.file)
    (folder / GAPS_FILE).write_text(_text(work, found), encoding="utf-8", newline="\n")


def _write_prompts(work: Workspace, number: int, file: Path) -> None:
    query = """
        SELECT id, prompt FROM prompts SEMI JOIN kept USING (number)
        ANTI JOIN (SELECT number FROM cells WHERE target = ? AND label != 'unscored') USING (number)
        ORDER BY id"""
    with file.open("w", encoding="utf-8", newline="\n") as lines:
        for rows in work.batches(query, [number]):
            for identity, prompt in rows:
                lines.write(json.dumps({"id": identity, "prompt": prompt}, ensure_ascii=False) + "\n")


def _text(work: Workspace, found: list[Gap]) -> str:
    lines = [
        "# Gaps",
        "",
        "Prompts that a target has not answered. They are in no rate of that target: a missing reply is no "
        "answer, and neither is one without a label (unscored). Run a command in this folder, then aggregate "
        "again with `../responses` as one more `--responses`.",
        "",
    ]
    open_gaps = [gap for gap in found if gap.missing + gap.unscored]
    if not open_gaps:
        return "\n".join([*lines, "None: every target has answered every prompt.", ""])
    lines += ["| target | not asked | unscored |", "| --- | ---: | ---: |"]
    lines += [f"| {markdown_cell(gap.target)} | {gap.missing:,} | {gap.unscored:,} |" for gap in open_gaps]
    for gap in open_gaps:
        target = work.targets.get(gap.target)
        lines += ["", f"## {markdown_line(gap.target)}", ""]
        if target is None or target.model is None or gap.file is None:
            lines.append(
                "Prompts were made for it, or an earlier release names it, but how lm-eval asks it is not "
                "known here: no run and no log of it was given. Give its refresh run, or a log of it."
            )
            continue
        if target.model_args is None:
            lines += [
                "Its logs differ in their model arguments; complete the command with those you want.",
                "",
            ]
        if differing := work.decoding.get(gap.target):
            lines += [
                f"Its replies were made with different decoding settings: {described(differing)}. "
                "Complete the command with those you want, in --gen_kwargs.",
                "",
            ]
        lines += ["```bash", command(target, gap.file, work.labelled_by), "```"]
    return "\n".join([*lines, ""])


def command(target: TargetRecord, prompts: str, labelled_by: str | None) -> str:
    """The lm_eval command that asks ``target`` the prompts of a file as it was asked before."""
    judged = labelled_by is not None and not labelled_by.startswith(("rules", "classifier"))
    words = ["lm_eval", "--model", str(target.model)]
    if target.model_args:
        words += ["--model_args", target.model_args]
    words += ["--tasks", "overbench_judge" if judged else "overbench"]
    words += ["--metadata", json.dumps({"overbench_source": prompts}, ensure_ascii=False)]
    if target.apply_chat_template:
        words += ["--apply_chat_template"]
    if target.system_instruction:
        words += ["--system_instruction", target.system_instruction]
    if target.max_gen_toks is not None:
        words += ["--gen_kwargs", f"max_gen_toks={target.max_gen_toks}"]
    words += ["--log_samples", "--output_path", "../responses"]
    return shlex.join(words)
