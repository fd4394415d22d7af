"""What a release is made of: refresh runs, files of prompts, earlier releases.

    a refresh run      its exported prompts, and the target's own replies to them as verdicts
    a prompt file      JSONL, CSV or Parquet with a ``prompt`` and any columns of a prompt record
    a release          its prompts, and its matrix as verdicts

``refused_by`` in a prompt file is no verdict: it names who refused but not who was asked.

Labels of several labellers don't compare and are refused. A target's name does not tell how its replies
were decoded, so logs with 64 and with 512 new tokens fall into one target. That may be meant (a cut-off
reply asked again), but must not go unseen: replies that were cut short, or drawn at random, are labelled
differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from generators.release.read import MATRIX_FILE, PROMPTS_FILE, Release, is_release, read_columns, read_release
from generators.targets.naming import Aliases, TargetRecord, name_target
from overbench_tasks.errors import OverbenchError
from overbench_tasks.logs import LoggedRun, find_runs
from overbench_tasks.prompts.refreshed import ACCEPTED_NAME, REFRESHED_NAME
from overbench_tasks.refusal import RULES_VERSION
from overbench_tasks.tables import SUFFIXES

Which = Literal["accepted", "verified"]
"""Of a refresh run: every prompt that passed its gates, or those that its target refused as well."""

_EXPORTS: Final = {"accepted": ACCEPTED_NAME, "verified": REFRESHED_NAME}


@dataclass(frozen=True)
class Log:
    """A sample log and whose it is.

    Attributes:
        run: what the log and its results file tell.
        target: who was asked, by its short name.
        long_name: its name before aliases.
    """

    run: LoggedRun
    target: TargetRecord
    long_name: str


@dataclass(frozen=True)
class PromptSource:
    """Where prompts come from.

    Attributes:
        name: what ``sources`` calls it: the last part of its path, so that moving it changes nothing.
        file: the file of prompts.
        target: of a refresh run, the target it was made for, by its short name.
        long_names: the names of its targets before aliases.
        labelled_by: of a refresh run, who labelled its replies; of a release, who labelled its cells.
        release: of a release, the release.
        logs: where the prompts are those that these logs hold.
    """

    name: str
    file: Path
    target: TargetRecord | None = None
    long_names: tuple[str, ...] = ()
    labelled_by: tuple[str, ...] = ()
    release: Release | None = field(default=None, repr=False)
    logs: tuple[Log, ...] = ()

    @property
    def kind(self) -> str:
        return "release" if self.release else "refresh run" if self.target else "prompt file"


def find_logs(folders: Sequence[Path], aliases: Aliases) -> list[Log]:
    """All sample logs below the folders, each once, by target and file.

    Raises:
        OverbenchError: see :func:`overbench_tasks.logs.find_runs`.
    """
    logs = []
    for run in find_runs(folders):
        target = name_target(
            run.model,
            run.model_args,
            run.system_instruction,
            run.chat_template,
            max_gen_toks=run.generation.get("max_gen_toks"),
            lm_eval_version=run.lm_eval_version,
            label_version=run.labelled_by,
        )
        logs.append(Log(run, aliases.target(target), target.target))
    return sorted(logs, key=lambda log: (log.target.target, str(log.run.file)))


def find_source(path: Path, which: Which, aliases: Aliases) -> PromptSource:
    """What a path is.

    Raises:
        OverbenchError: nothing there, or nothing that holds prompts.
    """
    path = path.expanduser()
    if is_release(path):
        return release_source(read_release(path))
    if (path / "run.sqlite").is_file():
        return _run(path, which, aliases)
    if path.is_file() and path.suffix in SUFFIXES:
        return PromptSource(path.name, path)
    what = "nothing" if not path.exists() else "a folder that is neither" if path.is_dir() else "another file"
    raise OverbenchError(
        f"Expected a refresh run, a release, or a prompt file ({', '.join(SUFFIXES)}) at {path}, "
        f"found {what}. Check the path."
    )


def release_source(release: Release) -> PromptSource:
    """An earlier release as a source."""
    cells = read_columns(release.folder / MATRIX_FILE, {"labelled_by": "string"})
    labellers = tuple(sorted(set(cells["labelled_by"].unique().to_pylist()) - {None}))
    names = tuple(target.target for target in release.targets())
    file = release.folder / PROMPTS_FILE
    return PromptSource(release.folder.resolve().name, file, None, names, labellers, release)


def _run(folder: Path, which: Which, aliases: Aliases) -> PromptSource:
    from generators.refresh.store import Store

    settings = _settings(folder)
    file = folder / "data" / _EXPORTS[which]
    if not file.is_file():
        raise OverbenchError(
            f"The run {folder} has no {file.name}: it has not exported any {which} prompts. Let it finish "
            f"(overbench refresh {folder}), or leave it out."
        )
    with Store(folder, read_only=True) as store:
        labellers = store.labellers()
    asked = settings["target"]
    target = name_target(
        str(asked.get("model", "hf")),
        asked["model_args"],
        asked.get("system_instruction"),
        bool(asked.get("apply_chat_template", True)),
        max_gen_toks=asked.get("max_gen_toks"),
        label_version=labellers[0] if len(labellers) == 1 else None,
    )
    return PromptSource(folder.resolve().name, file, aliases.target(target), (target.target,), labellers)


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


def one_labeller(sources: Sequence[PromptSource], logs: Sequence[Log], relabel: bool = False) -> str | None:
    """Who labelled all replies.

    Raises:
        OverbenchError: several did, so that their labels do not compare.
    """
    found = [(name, one.name) for one in sources if one.release or not relabel for name in one.labelled_by]
    if not relabel:
        found += [(log.run.labelled_by, str(log.run.file)) for log in logs]
    elif logs or any(source.target for source in sources):
        found.append((f"rules {RULES_VERSION}", "the replies labelled now"))
    examples = dict(reversed(found))  # the first of each
    if len(examples) > 1:
        listed = "; ".join(f"{name} ({example})" for name, example in sorted(examples.items()))
        help_ = (
            "An earlier release holds no replies to label anew: give the logs it was made of instead."
            if relabel
            else "Label all replies anew by today's rules (overbench aggregate --relabel), or leave out all "
            "but one kind."
        )
        raise OverbenchError(
            f"The replies were labelled by {len(examples)} different labellers or versions, whose labels do "
            f"not compare: {listed}. {help_}"
        )
    return next(iter(examples), None)


Differences = dict[str, dict[str, list[Any]]]
"""target -> setting -> its values, in the order in which they were met; None: a log does not set it."""


def decoding_differences(
    logs: Sequence[Log], sources: Sequence[PromptSource], aliases: Aliases
) -> Differences:
    """The decoding settings in which the replies of a target differ.

    Compared are all settings of lm-eval's ``generation_kwargs`` between logs, and of refresh runs and earlier
    releases the number of new tokens, where they tell it.

    Returns:
        those targets and settings that differ only, by name.
    """
    told = defaultdict(list)
    for log in logs:
        told[log.target.target].append(log.run.generation)
    seen: Differences = defaultdict(dict)
    for target, settings in told.items():
        for name in sorted({name for one in settings for name in one}):
            seen[target][name] = [one.get(name) for one in settings]
    known = [source.target for source in sources if source.target]
    for source in sources:
        known += map(aliases.target, source.release.targets()) if source.release else ()
    for one in known:
        if one.max_gen_toks is not None:
            seen[one.target].setdefault("max_gen_toks", []).append(one.max_gen_toks)
    found: Differences = {}
    for target, values_of in sorted(seen.items()):
        for name, values in values_of.items():
            # 0 and 0.0 are one, and lists are compared as well.
            distinct = [value for place, value in enumerate(values) if value not in values[:place]]
            if len(distinct) > 1:
                found.setdefault(target, {})[name] = distinct
    return found


def described(settings: Mapping[str, Sequence[Any]]) -> str:
    """``max_gen_toks (64, 128); temperature (not set, 0.7)``."""
    return "; ".join(
        f"{name} ({', '.join('not set' if value is None else str(value) for value in values)})"
        for name, values in settings.items()
    )


def decoding_notes(found: Differences) -> list[str]:
    """What to tell people, a line per target."""
    return [
        f"The replies of {target} were made with different decoding settings: {described(settings)}. They "
        "count as one target's. Unless that is meant, leave out the logs of all settings but one."
        for target, settings in found.items()
    ]
