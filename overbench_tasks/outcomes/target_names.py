"""What a target is called, and which targets are configurations of one checkpoint.

A target is a checkpoint as it was asked: backend, decoding, system instruction, template. Its name is, in
this order,

    the checkpoint     refreshed.target_name of lm-eval's model arguments, else MODEL:MODEL_ARGS
    " +system:<hex>"   where a system instruction was given: the first 8 hex digits of its SHA-256, or in
                       their place the name of a defence (:mod:`overbench_tasks.defences`) whose text it is
    " -template"       where no chat template was applied and the backend is not a chat API, which applies
                       its own
    " (temperature 0.7)"  where another target at hand has this name: what differs
                       (:func:`overbench_tasks.outcomes.target_configs.disambiguate`)

Aliases give such names a short form. Configurations of one checkpoint stay recognisable as such: the
checkpoint of a target is its name without the additions, or that name's own alias, or what the alias says
behind "@".
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any

from overbench_tasks.defences.defences import defence_with
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.refreshed import target_name


@dataclass(frozen=True)
class TargetRecord:
    """One configuration of one checkpoint: a row of a release's ``targets.parquet``. None: not known.

    Attributes:
        decoding: JSON of how replies were drawn, beside ``max_gen_toks``. None: greedily, one to each prompt;
            this is taken for granted of a release that doesn't tell.
    """

    target: str
    checkpoint: str
    model: str | None = None
    model_args: str | None = None
    system_instruction: str | None = None
    apply_chat_template: bool | None = None
    max_gen_toks: int | None = None
    lm_eval_version: str | None = None
    label_version: str | None = None
    decoding: str | None = None

    @property
    def drawn(self) -> dict[str, Any]:
        """``temperature``, ``repeats`` and whatever else of :attr:`decoding` was set."""
        return {"temperature": 0, "repeats": 1, **json.loads(self.decoding or "{}")}


def name_target(
    model: str,
    model_args: str | Mapping[str, Any],
    system_instruction: str | None = None,
    apply_chat_template: bool = True,
    **settings: Any,
) -> TargetRecord:
    """The target that was asked with these arguments of lm-eval.

    Args:
        settings: further fields of :class:`TargetRecord`.
    """
    if isinstance(model_args, str):
        from lm_eval.utils import simple_parse_args_string

        text, parsed = model_args, simple_parse_args_string(model_args)
    else:
        text, parsed = ",".join(f"{key}={value}" for key, value in model_args.items()), dict(model_args)
    checkpoint = target_name(parsed) or f"{model}:{text}"
    templated = apply_chat_template or "chat" in model  # the server of a chat API applies its template
    system = system_suffix(system_instruction) if system_instruction else ""
    return TargetRecord(
        target=f"{checkpoint}{system}{'' if templated else ' -template'}",
        checkpoint=checkpoint,
        model=model,
        model_args=text,
        system_instruction=system_instruction or None,
        apply_chat_template=templated,
        **settings,
    )


_SYSTEM = " +system:"
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "typical_p")


def decoding_of(generation: Mapping[str, Any], repeats: int = 1) -> str | None:
    """:attr:`TargetRecord.decoding` of lm-eval's ``generation_kwargs``.

    Without ``do_sample`` and temperature replies are greedy, whatever else is said of sampling; with
    ``do_sample`` alone the temperature is the model's own.
    """
    sampled = bool(generation.get("do_sample") or generation.get("temperature"))
    left_out = {"max_gen_toks", "seed", "do_sample", *(() if sampled else _SAMPLING)}
    told: dict[str, Any] = {"temperature": "the model's own"} if sampled else {}
    for name, value in generation.items():
        if name in left_out or value in (None, []):
            continue
        told[name] = int(value) if isinstance(value, float) and value.is_integer() else value
    if repeats != 1:
        told["repeats"] = repeats
    return json.dumps(told, ensure_ascii=False, sort_keys=True) if told else None


def system_suffix(system_instruction: str) -> str:
    """What a system instruction adds to a target's name."""
    known = defence_with(system_instruction)
    return f"{_SYSTEM}{known or hashlib.sha256(system_instruction.encode()).hexdigest()[:8]}"


def system_name(target: TargetRecord) -> str:
    """What stands for a target's system instruction: what its name says, or an alias of it, else as above."""
    _, marked, named = target.target.partition(_SYSTEM)
    named = named if marked else system_suffix(target.system_instruction or "").removeprefix(_SYSTEM)
    return named.partition(" (")[0]


def public_arguments(model_args: str | None) -> str | None:
    """Model arguments as a release may show them: without the names of folders and machines.

    An absolute path is reduced to its last part, and ``base_url`` left out.
    """
    if model_args is None:
        return None
    shown = []
    for argument in model_args.split(","):
        key, equals, value = argument.partition("=")
        if key.strip() == "base_url":
            continue
        if value.startswith(("/", "~")) or PureWindowsPath(value).is_absolute():
            value = Path(value.replace("\\", "/")).name
        shown.append(f"{key}{equals}{value}")
    return ",".join(shown)


class Aliases:
    """Short names for targets.

    Args:
        given: texts ``LONG NAME=short name`` or ``LONG NAME=short name@checkpoint``. Long names may hold
            "=", short ones not. Two long names may share a short one: then they are one target.

    Raises:
        OverbenchError: a text is no alias, or one long name is given two short ones.
    """

    def __init__(self, given: Sequence[str] = ()) -> None:
        self._aliases: dict[str, tuple[str, str | None]] = {}
        for text in given:
            long, equals, short = text.rpartition("=")
            name, at, checkpoint = short.partition("@")
            if not equals or not long.strip() or not name.strip() or (at and not checkpoint.strip()):
                raise OverbenchError(
                    f"Expected --alias 'LONG NAME=short name' or '...=short name@checkpoint', got {text!r}."
                )
            alias = name.strip(), checkpoint.strip() or None
            if self._aliases.setdefault(long.strip(), alias) != alias:
                raise OverbenchError(f"--alias gives {long.strip()!r} two names. Keep one of them.")
        self._used: set[str] = set()

    def name(self, name: str) -> str:
        """The short form of a target's or checkpoint's name; without an alias, the name itself."""
        if name not in self._aliases:
            return name
        self._used.add(name)
        return self._aliases[name][0]

    def extended(self, long: str, short: str, name: str) -> str:
        """The short form of a name with additions: of the long name with them, or the name itself.

        Args:
            long, short: the target's name without additions, before and after aliases.
            name: the short name with additions.
        """
        with_additions = long + name.removeprefix(short)
        return self.name(with_additions) if with_additions in self._aliases else self.name(name)

    def target(self, target: TargetRecord) -> TargetRecord:
        """The target by its short name, its checkpoint too."""
        _, checkpoint = self._aliases.get(target.target, ("", None))
        checkpoint = checkpoint or self.name(target.checkpoint)
        return replace(target, target=self.name(target.target), checkpoint=checkpoint)

    def check_used(self, known: Iterable[str]) -> None:
        """Complain about an alias that names no target.

        Args:
            known: the names before aliases, for near matches.

        Raises:
            OverbenchError: an alias was never asked for.
        """
        for long in self._aliases.keys() - self._used:
            names = sorted(set(known))
            near = difflib.get_close_matches(long, names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Targets: {', '.join(names) or 'none'}."
            raise OverbenchError(f"--alias: no target is called {long!r}. {hint}")
