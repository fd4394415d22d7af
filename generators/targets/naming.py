"""What a target is called, and which targets are configurations of one checkpoint.

A target is a checkpoint as it was asked. Its name is, in this order,

    the checkpoint     refreshed.target_name of lm-eval's model arguments, else MODEL:MODEL_ARGS
    " +system:<hex>"   where a system instruction was given: the first 8 hex digits of its SHA-256
    " -template"       where no chat template was applied and the backend is not a chat API, which applies
                       its own

Aliases give such names a short form. Configurations of one checkpoint stay recognisable as such: the
checkpoint of a target is its name without the additions, or that name's own alias, or what the alias says
behind "@".
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path, PureWindowsPath
from typing import Any

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.refreshed import target_name


@dataclass(frozen=True)
class TargetRecord:
    """One configuration of one checkpoint: a row of a release's ``targets.parquet``. None: not known."""

    target: str
    checkpoint: str
    model: str | None = None
    model_args: str | None = None
    system_instruction: str | None = None
    apply_chat_template: bool | None = None
    max_gen_toks: int | None = None
    lm_eval_version: str | None = None
    label_version: str | None = None


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


def system_suffix(system_instruction: str) -> str:
    """What a system instruction adds to a target's name."""
    return f" +system:{hashlib.sha256(system_instruction.encode()).hexdigest()[:8]}"


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


_TELLING = ("checkpoint", "system_instruction", "apply_chat_template")
_VARYING = ("model", "model_args", "max_gen_toks", "lm_eval_version", "label_version")


def joined(targets: Iterable[TargetRecord]) -> dict[str, TargetRecord]:
    """One target per name, by name.

    A setting that only some of a name tell is known; one on which they differ becomes None.

    Raises:
        OverbenchError: two of a name differ in checkpoint, system instruction or chat template.
    """
    by_name: dict[str, list[TargetRecord]] = {}
    for target in targets:
        by_name.setdefault(target.target, []).append(target)
    return {name: _joined(by_name[name]) for name in sorted(by_name)}


def _joined(same: Sequence[TargetRecord]) -> TargetRecord:
    first, *others = known = [target for target in same if target.model is not None] or same
    for other, setting in product(others, _TELLING):
        one, another = getattr(first, setting), getattr(other, setting)
        if one != another:
            raise OverbenchError(
                f"Two targets would both be called {first.target!r}, with different {setting}: {one!r} and "
                f"{another!r}. Give them different names with --alias."
            )
    return replace(first, **{setting: _agreed(setting, known) for setting in _VARYING})


def _agreed(setting: str, targets: Sequence[TargetRecord]) -> Any:
    values = {getattr(target, setting) for target in targets} - {None}
    if setting == "model_args" and len({public_arguments(value) for value in values}) == 1:
        return max(values, key=len)  # an earlier release holds them without folders
    return values.pop() if len(values) == 1 else None


def as_known(target: TargetRecord, known: Iterable[TargetRecord]) -> TargetRecord:
    """The target by the name and checkpoint that one of ``known`` has for it, as far as arguments tell."""
    by_long_name = {_long_name(one): one for one in known}
    shown = replace(target, model_args=public_arguments(target.model_args))
    found = by_long_name.get(target.target) or by_long_name.get(_long_name(shown))
    return replace(target, target=found.target, checkpoint=found.checkpoint) if found else target


def _long_name(target: TargetRecord) -> str:
    """The name of a target before aliases, as far as its arguments tell."""
    if target.model is None:
        return target.target
    chat = target.apply_chat_template is not False
    return name_target(target.model, target.model_args or "", target.system_instruction, chat).target
