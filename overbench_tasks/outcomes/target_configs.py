"""Targets of one checkpoint, asked in several ways: told apart, joined where nothing differs, asked again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.registry import kind_that_labelled
from overbench_tasks.outcomes.target_names import TargetRecord, name_target, public_arguments

BACKEND, TOKENS = "backend", "max_gen_toks"
WHERE_AND_HOW_FAST = frozenset(
    re.findall(
        r"\w+",
        """pretrained model gguf_file peft delta subfolder revision tokenizer tokenizer_backend
        tokenized_requests base_url header verify_certificate ca_cert_path num_concurrent max_retries timeout
        batch_size max_batch_size device device_map device_map_option parallelize gpus max_memory_per_gpu
        max_cpu_memory offload_folder cache_dir tensor_parallel_size data_parallel_size pipeline_parallel_size
        swap_space gpu_memory_utilization enforce_eager max_model_len max_length trust_remote_code
        logits_cache seed random_seed""",
    )
)
"""Model arguments that name the checkpoint, which names tell already, or say where it runs and how fast."""
_WHICH = {"pretrained", "model", "gguf_file", "peft", "delta", "subfolder", "revision", "tokenizer"}
"""Of these, those that name the model."""


def shaping_arguments(model_args: str) -> dict[str, str]:
    """Model arguments by name, without those on where the model runs and how fast."""
    given = (one.partition("=") for one in model_args.split(","))
    told = {name.strip(): value.strip() for name, _, value in given}
    return {name: value for name, value in told.items() if name not in WHERE_AND_HOW_FAST or name in _WHICH}


_NOT_SET, _NOT_KNOWN = "not set", "not known"


def how_asked(target: TargetRecord) -> dict[str, Any]:
    """What tells a target's replies from others of its name, as far as it is known and was set."""
    arguments = (one.partition("=") for one in (target.model_args or "").split(","))
    told = {name.strip(): value.strip() for name, equals, value in arguments if equals}
    told = {name: value for name, value in told.items() if name not in WHERE_AND_HOW_FAST}
    known = {BACKEND: target.model, **told, TOKENS: target.max_gen_toks, **target.drawn}
    return {name: value for name, value in known.items() if value is not None}


def differing(targets: Sequence[TargetRecord]) -> dict[str, list[Any]]:
    """The settings in which some of these targets are known to differ, with the value of each target.

    Where one is not there, a decoding setting was not set, a backend or a number of tokens is not known, and
    an argument was not set, or is not known of a target without arguments.
    """
    asked = [how_asked(target) for target in targets]
    drawn = {name for target in targets for name in target.drawn}
    found = {}
    for name in dict.fromkeys((BACKEND, TOKENS, *(name for one in asked for name in one))):
        values = [
            one.get(name, _NOT_SET if name in drawn or _tells_arguments(target, name) else _NOT_KNOWN)
            for one, target in zip(asked, targets, strict=True)
        ]
        if len({str(value) for value in values} - {_NOT_KNOWN}) > 1:
            found[name] = values
    return found


def _tells_arguments(target: TargetRecord, name: str) -> bool:
    return target.model_args is not None and name not in (BACKEND, TOKENS)


def disambiguate(
    asked: Sequence[TargetRecord], released: Sequence[TargetRecord] = ()
) -> tuple[list[TargetRecord], list[str]]:
    """Targets by names under which no two that were asked otherwise are one.

    Where targets of one name differ in backend, arguments or decoding, what differs is added to it. Those of
    releases keep theirs. What is not known of a target is as with the only one that it may be.

    Returns:
        (the targets of ``asked`` and then of ``released``, notes for people on what differs).
    """
    ways: dict[str, list[TargetRecord]] = {}
    way_of: dict[TargetRecord, TargetRecord] = {}
    # Those of whom more is known come first, for the others to find.
    for target in (*released, *sorted(asked, key=lambda one: (one.model is None, one.max_gen_toks is None))):
        of_name = ways.setdefault(base_name(target), [])
        same = [way for way in of_name if how_asked(way) == how_asked(target)]
        fitting = same or [way for way in of_name if not differing([way, target])]
        if len(fitting) != 1:
            of_name.append(target)
            fitting = [target]
        way_of[target] = fitting[0]
    names = {}
    apart: dict[str, dict[str, list[str]]] = {}
    kept = {target.target: target for target in reversed(released)}
    for name, of_name in ways.items():
        of_name.sort(key=lambda way: [str(value) for value in how_asked(way).values()])
        told = differing(of_name)
        for place, way in enumerate(of_name):
            said = ", ".join(f"{setting} {values[place]}" for setting, values in told.items())
            own = kept.get(way.target) == way or not said
            names[way] = way.target if own else f"{name} ({said})"
        if told:
            how = f"asked in {len(of_name)} ways: {described(told)}. They stay apart, as"
            apart.setdefault(how, {})[name] = [names[way] for way in of_name]
    notes = [
        f"{_who(list(of_how))} {how} {', '.join(one for some in of_how.values() for one in some)}."
        for how, of_how in apart.items()
    ]
    return [replace(target, target=names[way_of[target]]) for target in (*asked, *released)], notes


def _who(names: Sequence[str]) -> str:
    return f"{names[0]} was" if len(names) == 1 else f"{len(names)} targets were each"


def described(settings: Mapping[str, Sequence[Any]]) -> str:
    """``max_gen_toks (64, 128); temperature (0, 0.7)``."""
    return "; ".join(
        f"{name} ({', '.join(dict.fromkeys(map(str, values)))})" for name, values in settings.items()
    )


def base_name(target: TargetRecord) -> str:
    """A target's name without what :func:`disambiguate` added."""
    name, added, settings = target.target.rpartition(" (")
    known = {f"{setting} {value}" for setting, value in how_asked(target).items()}
    parts = settings.removesuffix(")").split(", ")
    ours = all(part in known or part.endswith((_NOT_SET, _NOT_KNOWN)) for part in parts)
    return name if added and ours and settings.endswith(")") else target.target


_TELLING = ("checkpoint", "system_instruction", "apply_chat_template")
_VARYING = ("model", "model_args", "max_gen_toks", "lm_eval_version", "label_version", "decoding")


def joined(targets: Iterable[TargetRecord]) -> dict[str, TargetRecord]:
    """One target per name, by name.

    A setting that only some of a name tell is known. Of model arguments those stay on which all agree; any
    other setting on which they differ becomes None.

    Raises:
        OverbenchError: two of a name differ in checkpoint, system instruction, chat template, backend or
            decoding.
    """
    by_name: dict[str, list[TargetRecord]] = {}
    for target in targets:
        by_name.setdefault(target.target, []).append(target)
    return {name: _joined(by_name[name]) for name in sorted(by_name)}


def _joined(same: Sequence[TargetRecord]) -> TargetRecord:
    first, *others = known = [target for target in same if target.model is not None] or same
    told = {
        setting: [getattr(first, setting), getattr(other, setting)]
        for other, setting in product(others, _TELLING)
        if getattr(first, setting) != getattr(other, setting)
    }
    for setting, values in (told | differing(known)).items():
        raise OverbenchError(
            f"Two targets would both be called {first.target!r}, with different {setting}: "
            f"{' and '.join(map(repr, dict.fromkeys(values)))}. Give them different names with --alias."
        )
    return replace(first, **{setting: _agreed(setting, known) for setting in _VARYING})


def _agreed(setting: str, targets: Sequence[TargetRecord]) -> Any:
    values = dict.fromkeys(getattr(target, setting) for target in targets)
    values.pop(None, None)
    if setting == "model_args" and len(values) > 1:
        # Without folders and machines, as an earlier release holds them.
        shown = [str(public_arguments(value)).split(",") for value in values]
        if all(one == shown[0] for one in shown):
            return max(values, key=len)
        return ",".join(argument for argument in shown[0] if all(argument in one for one in shown))
    return next(iter(values)) if len(values) == 1 else None


def as_known(target: TargetRecord, known: Iterable[TargetRecord]) -> TargetRecord:
    """The target by the name and checkpoint that one of ``known`` has for it, as far as arguments tell."""
    by_long_name = {_long_name(one): one for one in known}
    shown = replace(target, model_args=public_arguments(target.model_args))
    found = by_long_name.get(target.target) or by_long_name.get(_long_name(shown))
    return replace(target, target=base_name(found), checkpoint=found.checkpoint) if found else target


def _long_name(target: TargetRecord) -> str:
    """The name of a target before aliases, as far as its arguments tell."""
    if target.model is None:
        return target.target
    chat = target.apply_chat_template is not False
    return name_target(target.model, target.model_args or "", target.system_instruction, chat).target


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
    kind = kind_that_labelled(labelled_by or "rules")
    judged = kind is None or kind.filter == "judge"
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
