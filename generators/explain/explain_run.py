"""A run of ``overbench explain``: which prompts, who is asked, and the files it writes.

    OUT/replies.jsonl     what the target said, each line on the disk as soon as it came
    OUT/explain.jsonl     one record per prompt, in the order they were finished
    OUT/summary.json      counts, medians, the triggers that explain most
    OUT/explain.html      one page that needs no other file

All but the replies is made anew with each start: a run goes on from its replies. Without a folder, replies
are kept in the user's cache, by target, until everything was found out: later, the model may be another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from generators.explain.explain import PromptToExplain, explanations
from generators.explain.explain_output import page
from generators.explain.explain_settings import ExplainSettings
from generators.explain.explanation import Explanation
from generators.explain.inquiry import AnswersQuestions, Inquiry
from generators.explain.trigger_table import summary
from generators.targets.naming import public_arguments
from generators.targets.reply_file import ReplyFile
from overbench_tasks import __version__
from overbench_tasks.chat.cache import default_cache_file
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers import by_name
from overbench_tasks.logs import reply_files
from overbench_tasks.prompts import prompt_id
from overbench_tasks.prompts.prompt_sets import read_prompts
from overbench_tasks.reply_rows import read_replies
from overbench_tasks.tables import whole_file


def one_prompt(text: str) -> list[PromptToExplain]:
    """The prompt of the command line.

    Raises:
        OverbenchError: there is no text in it.
    """
    if not text.strip():
        raise OverbenchError(f"Expected a prompt with text in it, got {text!r}. Write one in quotes.")
    return [PromptToExplain(prompt_id(text), text)]


def prompts_of_file(file: Path, limit: int | None) -> list[PromptToExplain]:
    """The safe prompts of a file, as ``overbench_source`` takes it: all, or the first ``limit``.

    Raises:
        OverbenchError: the file can't be used, or has no safe prompt.
    """
    rows = [row for row in read_prompts(file) if row["prompt_label"] == "safe"]
    if not rows:
        raise OverbenchError(f"Expected safe prompts in {file}, all are unsafe. Name a file that has some.")
    return [PromptToExplain(row["id"], row["prompt"]) for row in rows][:limit]


def refused_prompts(logs: Sequence[str], limit: int | None) -> list[PromptToExplain]:
    """The safe prompts that most replies of lm-eval's sample logs refuse, each once, by their logged labels.

    Raises:
        OverbenchError: no log, one that can't be read, or none of its prompts is refused.
    """
    found: dict[str, PromptToExplain] = {}
    for file in reply_files(list(logs))[0]:
        for row in read_replies(file):
            labels = [verdict.label for verdict in row.logged or ()]
            refused = 2 * labels.count("refused") > len(labels)
            if refused and row.prompt and row.prompt.strip() and row.prompt_label == "safe":
                found.setdefault(row.prompt, PromptToExplain(row.id or prompt_id(row.prompt), row.prompt))
    if not found:
        raise OverbenchError(
            f"Expected refused prompts in {', '.join(logs)}, found none. Name another run, or a prompt."
        )
    return list(found.values())[:limit]


def explain(
    prompts: Sequence[PromptToExplain],
    settings: ExplainSettings,
    target: AnswersQuestions,
    out: Path | None,
) -> Iterator[Explanation]:
    """Explain prompts one by one; with ``out``, write its files, the summary and the page at the end.

    Raises:
        OverbenchError: the folder can't be used, another process works on it, or the target can't be asked;
            what it answered before is kept.
    """
    with by_name(settings.labeller.by, settings.labeller.by_args) as labeller:
        folder = out or default_cache_file("explain")
        name = "replies.jsonl" if out else f"{hashlib.sha256(target.name.encode()).hexdigest()[:12]}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / f".{name}.lock").acquire(timeout=0)
        except Timeout as error:
            raise OverbenchError(f"Another process works on {folder}. Wait for it or stop it.") from error
        except OSError as error:
            raise OverbenchError(f"{folder} can't be written: {error}. Name another with --out.") from error
        with lock, tqdm(desc="explain", unit=" calls", disable=None) as bar:
            inquiry = Inquiry(target, labeller, ReplyFile(folder / name), settings.chunk_size, bar.update)
            finished: list[Explanation] = []
            records = folder / "explain.jsonl" if out else None
            if records:
                records.unlink(missing_ok=True)
            for one in explanations(prompts, settings, inquiry):
                finished.append(one)
                bar.set_postfix_str(f"{len(finished):,} of {len(prompts):,} prompts")
                if records:
                    with records.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(one.to_json()) + "\n")
                yield one
            if not out and not any(map(ended_early, finished)):
                (folder / name).unlink(missing_ok=True)
            if out:
                _write(out, finished, settings, target, labeller.name)


def ended_early(one: Explanation) -> bool:
    """Whether more calls would tell more."""
    return any(found and found.state == "budget_ended" for found in (one.words, one.sentences))


def _write(
    out: Path, finished: Sequence[Explanation], settings: ExplainSettings, target: Any, labeller: str
) -> None:
    facts = {
        "target": target.name,
        "model_args": public_arguments(settings.target.model_args),
        "decoding": target.decoding,
        "labelled_by": labeller,
        "by": settings.by,
        "samples": settings.samples,
        "by_probability": settings.by_probability,
        "budget_calls": settings.budget_calls,
        "version": f"overbench {__version__}",
    }
    instruction = settings.target.system_instruction
    with whole_file(out / "summary.json") as file:
        told = {**facts, "system_instruction": instruction, **summary(finished)}
        json.dump(told, file, indent=1, ensure_ascii=False)
    with whole_file(out / "explain.html") as file:
        file.write(page(finished, facts, instruction))
