"""How a target is asked the prompts that it has not answered, as it was asked the others."""

from __future__ import annotations

import json
import shlex

from generators.targets.naming import TargetRecord


def how_to_fill(target: TargetRecord | None, prompts: str | None, labelled_by: str | None) -> list[str]:
    """Lines of Markdown.

    Args:
        target: None where no log and no release knows it.
        prompts: the file of the open prompts, relative to the release; None where there is none.
        labelled_by: who labelled the replies of the release.
    """
    if target is None or target.model is None or prompts is None:
        return [
            "Prompts were made for it, or an earlier release or an outcome table names it, but how "
            "lm-eval asks it is not known here: no run and no log of it was given. Give one of these."
        ]
    lines = ["```bash", _command(target, prompts, labelled_by), "```"]
    if (repeats := target.drawn["repeats"]) != 1:
        return [f"It gave {repeats} replies to each prompt: repeats in the task's YAML.", "", *lines]
    return lines


def _command(target: TargetRecord, prompts: str, labelled_by: str | None) -> str:
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
    decoding = {} if target.max_gen_toks is None else {"max_gen_toks": target.max_gen_toks}
    if target.decoding:
        decoding |= {"do_sample": True, **json.loads(target.decoding)}
        decoding.pop("repeats", None)
    if decoding:
        words += ["--gen_kwargs", ",".join(f"{name}={value}" for name, value in decoding.items())]
    words += ["--log_samples", "--output_path", "../responses"]
    return shlex.join(words)
