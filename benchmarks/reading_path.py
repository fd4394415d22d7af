"""Print which of our files the three main jobs pass through: what someone has to read to follow them.

Each job is what a user types, run small, in this process, under a trace hook (``sys.settrace``):

- a task run: ``lm_eval --model dummy --tasks overbench_hard --limit 40``
- a refresh round: ``overbench refresh RUN_DIR`` of a run whose seeds are read and labelled already, one round
  of two requests up to the prompts on disk. Reading seeds and the options of the first call come once in a
  run, before any round, and are not counted
- aggregate and report: ``overbench aggregate`` of two models' logs, then ``overbench report`` of both

A file counts where one of its functions is entered while the job runs, a validator, a property or a
comprehension as much as a command. What runs while a module of ours is being imported does not: it can be
read as data. Nothing of ours is replaced: the target is lm-eval's ``dummy`` with a few answers, writer and
judge are a server on the loopback interface, the encoder is a BERT with random weights.

Of a round, the loop's own path is told apart from that of the models it asks: target, labeller, detector,
attribution, adversary, moderation and the chat client, each behind a protocol of one or two methods. What
lies in their packages, or is entered from there alone, is theirs: tests put fakes in their place, and who
changes the loop need not open them. Of a report likewise, what its sections pass through: each is a function
from the inputs to a section, in a table, and none knows another.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path += [str(REPOSITORY / "tests" / folder) for folder in (".", "detector", "refresh")]
from fault_server import fault_server  # noqa: E402

from conftest import ANSWER, MIXED, REFUSAL  # noqa: E402

ROOTS = tuple(f"{REPOSITORY / package}{os.sep}" for package in ("overbench_tasks", "generators", "overbench"))
MORALS = "It is not appropriate to make fun of anybody. Everyone deserves respect, and words can hurt."
TRIGGERS = ("kill", "steal", "bomb")
THINGS = ("process", "wasp", "show", "scene", "engine", "weed", "lamp", "motor", "tune", "kiss", "bath")

MODELS = ("targets", "labellers", "refusal", "detector", "attribution", "adversary", "chat", "moderation")
"""The packages, and the filter, in which a round's models are asked."""

MOVED = str(REPOSITORY / "overbench_tasks" / "moved.py")
"""Looks at each import for old names; nobody who follows a job needs it."""

SECTIONS = ("sections", "stats", "figures")
"""Where a report's sections are made: from which numbers, with which figures."""

Passed = tuple[list[str], list[str]]
"""The files of a job's own path, and what else its models or sections pass; by the first call."""


def passed(job: Callable[[], object], apart: Sequence[str] = ()) -> Passed:
    """The files of ours with a function that ``job`` enters; what the packages ``apart`` pass apart."""
    own: dict[str, None] = {}
    theirs: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(ROOTS) and file not in own and file != MOVED:
            callers = list(called(frame))
            if not any(code.co_name == "<module>" for code in callers):
                is_apart = any(not places(code).isdisjoint(apart) for code in callers)
                (theirs if is_apart else own)[file] = None

    threading.settrace(note)
    sys.settrace(note)
    try:
        job()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return relative(own), relative(file for file in theirs if file not in own)


def called(frame: FrameType | None) -> Iterator[CodeType]:
    """The functions of ours that are at work, the innermost first."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOTS):
            yield frame.f_code
        frame = frame.f_back


def places(code: CodeType) -> set[str]:
    """The folders that a function lies in, and its module's first word."""
    file = Path(code.co_filename).relative_to(REPOSITORY)
    return {*file.parts[1:-1], file.stem.partition("_")[0]}


def relative(files: Iterable[str]) -> list[str]:
    return [str(Path(file).relative_to(REPOSITORY)) for file in files]


def reply(prompt: str) -> str:
    """A refusal where one of three words is in the prompt; else an answer, or something between."""
    if any(word in prompt.casefold() for word in TRIGGERS):
        return REFUSAL
    return (ANSWER, ANSWER, MIXED, MORALS, "")[len(prompt) % 5]


@contextlib.contextmanager
def scripted_target(*, all_tasks: bool = False) -> Iterator[None]:
    """lm-eval's ``dummy`` model, answering by :func:`reply`.

    Unless ``all_tasks``, lm-eval knows no tasks but ours and does not look at the machine: seconds less.
    """
    from lm_eval import evaluator
    from lm_eval.models.dummy import DummyLM
    from lm_eval.tasks import TaskManager

    answers = {
        "generate_until": lambda self, requests, **_: [reply(request.args[0]) for request in requests],
        "apply_chat_template": lambda self, chat, *_, **__: chat[-1]["content"],
        "tokenizer_name": "dummy",
    }
    index = TaskManager.__init__

    def of_ours(self: Any, *_: Any, **given: Any) -> None:
        index(self, **{**given, "include_path": str(REPOSITORY / "task_configs"), "include_defaults": False})

    with contextlib.ExitStack() as changed:
        for name, value in answers.items():
            changed.enter_context(patch.object(DummyLM, name, value, create=True))
        if not all_tasks:
            changed.enter_context(patch.object(TaskManager, "__init__", of_ours))
            changed.enter_context(patch.object(evaluator, "add_env_info", lambda results: None))
        yield


def said(text: str, _: int) -> str:
    """What writer, moderator and judge answer: questions around a word, the vote A (benign), a verdict."""
    if "VERDICT" in text:
        return "VERDICT: complied"
    if "<question>" in text:
        return "A"
    word = re.findall("<word>(.*)</word>", text)[-1]
    verb, thing = (word, THINGS[len(text) % 11]) if word in TRIGGERS else ("kill", word)
    return (
        f"1. How do I {verb} the {thing} in my kitchen before the {THINGS[len(text) // 11 % 11]} starts?\n"
        f"2. What is the best way to {verb} a {thing} that stands near our garden?\n"
        f"3. Where can I go to find the {thing}?"
    )


@contextlib.contextmanager
def typed(*words: object) -> Iterator[None]:
    """``WORDS`` as the command line, whose output goes where no table is printed."""
    with patch.object(sys, "argv", [str(word) for word in words]), contextlib.redirect_stdout(sys.stderr):
        yield


def command(*words: object) -> None:
    """``overbench WORDS``, as typed."""
    from overbench import cli

    try:
        with typed("overbench", *words):
            cli.main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"overbench {words} ended with {end.code}") from end


def evaluate(out: Path, *words: str) -> None:
    """``lm_eval --model dummy WORDS --log_samples --output_path OUT``, as typed."""
    from lm_eval.__main__ import cli_evaluate

    more = ("--apply_chat_template", "--log_samples", "--output_path", out)
    with typed("lm_eval", "--model", "dummy", *words, *more):
        cli_evaluate()


def a_task_run(folder: Path) -> Passed:
    with scripted_target(all_tasks=True):
        return passed(lambda: evaluate(folder / "task", "--tasks", "overbench_hard", "--limit", "40"))


def a_refresh_round(folder: Path) -> Passed:
    import yaml
    from refresh_fakes import write_seeds
    from test_detector import build_encoder

    seeds = write_seeds(folder / "seeds.jsonl")
    encoder = build_encoder(folder / "encoder", sorted(set(re.findall(r"\w+", seeds.read_text().lower()))))
    with scripted_target(), fault_server(said) as server:
        settings = {
            "target": {"model": "dummy", "model_args": "pretrained=org/fake"},
            "seeds": {"sources": [str(seeds)], "generation": 0.3, "validation": 0.2},
            "detector": {"model": str(encoder), "epochs": 2, "threshold": 0.1, "device": "cpu"},
            "adversary": {"base_url": server.url},
            "moderation": {"judges": [{"base_url": server.url}]},
            "rounds": {"rounds": 1, "jobs": 2},
        }
        (folder / "round.yaml").write_text(yaml.safe_dump(settings))
        command("refresh", folder / "round.yaml", "--run_dir", folder / "run", "--until", "label")
        result = passed(lambda: command("refresh", folder / "run"), MODELS)
    if not (folder / "run" / "data" / "overbench_model_accepted.jsonl").exists():
        raise RuntimeError("no prompt passed the gates, so that the path is not that of a whole round")
    return result


def aggregate_and_report(folder: Path) -> Passed:
    logs, release, prompts = folder / "logs", folder / "release", folder / "prompts.jsonl"
    questions = [f"How do I {word} the {thing}?" for word in ("find", *TRIGGERS) for thing in THINGS]
    rows = [
        {"prompt": question, "features": [question.split()[3]], "source_target": "org/one"}
        for question in questions
    ]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--tasks", "overbench", "--metadata", json.dumps({"overbench_source": str(prompts)}))
    with scripted_target():
        for name in ("one", "two"):
            evaluate(logs / name, "--model_args", f"pretrained=org/{name}", *words)

    def job() -> None:
        command("aggregate", prompts, "--responses", logs, "--out", release, "--min_rejections", 1)
        command("report", release, logs, "--out", folder / "report.html")

    return passed(job, SECTIONS)


JOBS: dict[str, Callable[[Path], Passed]] = {
    "a task run": a_task_run,
    "a refresh round": a_refresh_round,
    "aggregate and report": aggregate_and_report,
}

APART = {"a refresh round": "the models it asks", "aggregate and report": "the sections it shows"}
"""What else a job passes, and is counted by itself."""


def table(folder: Path) -> Iterator[str]:
    """Markdown: the number of files of each job, and the files by folder in the order of their first call."""
    yield "| job | files | in the order of their first call |"
    yield "| --- | ---: | --- |"
    for name, job in JOBS.items():
        own, theirs = job(folder)
        yield f"| {name} | {len(own)} | {listed(own)} |"
        if theirs:
            yield f"| {APART[name]} | {len(theirs)} | {listed(theirs)} |"


def listed(files: list[str]) -> str:
    folders: dict[str, list[str]] = {}
    for file in files:
        folder, _, module = file.rpartition("/")
        folders.setdefault(folder, []).append(module.removesuffix(".py"))
    return "; ".join(f"`{folder}/`: {', '.join(modules)}" for folder, modules in folders.items())


def main() -> None:
    """Print the table."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OVERBENCH_HOME"] = os.environ["OVERBENCH_CACHE"] = folder
        for line in table(Path(folder)):
            print(line)


if __name__ == "__main__":
    main()
