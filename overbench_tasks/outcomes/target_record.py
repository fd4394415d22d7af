"""A target: one configuration of a checkpoint, and the key that identifies it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, Final

from overbench_tasks.prompts.refreshed import target_name

BACKEND: Final = "backend"
TOKENS: Final = "max_gen_toks"
KEY_DIGITS: Final = 12
WHERE_AND_HOW_FAST: Final = frozenset(
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
_WHICH: Final = {
    "pretrained",
    "model",
    "gguf_file",
    "peft",
    "delta",
    "subfolder",
    "revision",
    "tokenizer",
}
"""Of these, those that name the model."""


@dataclass(frozen=True)
class TargetRecord:
    """One configuration of one checkpoint: a row of a release's ``targets.parquet``. None: not known.

    Attributes:
        target: its name, unique among the targets at hand.
        checkpoint: the name of its weights; configurations of one checkpoint share it.
        decoding: the decoding settings without ``max_gen_toks``, as JSON. None: greedy, one reply to each
            prompt; this is assumed for a release that does not record it.
        base: the name before :func:`~overbench_tasks.outcomes.target_configs.disambiguate` added differences;
            None if it added none.
        system: the mark of the system instruction in the name: a hash, or a name.
        key: 12 hex digits of a hash of the checkpoint, as lm-eval's arguments name it, and all settings that
            shape replies. Made with the record; renaming the target does not change it. None without
            ``model``: such a record joins the only target that it matches.
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
    base: str | None = None
    system: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.key is None and self.model is not None:
            object.__setattr__(self, "key", _key(self))

    @property
    def drawn(self) -> dict[str, Any]:
        """``temperature``, ``repeats`` and whatever else of :attr:`decoding` was set."""
        return {"temperature": 0, "repeats": 1, **json.loads(self.decoding or "{}")}


def arguments_of(model_args: str | None) -> dict[str, str]:
    """lm-eval's model arguments by name, as texts."""
    arguments = (argument.partition("=") for argument in (model_args or "").split(","))
    return {name.strip(): value.strip() for name, equals, value in arguments if equals}


def shaping_arguments(model_args: str) -> dict[str, str]:
    """Model arguments by name, without those on where the model runs and how fast."""
    arguments = (argument.partition("=") for argument in model_args.split(","))
    values = {name.strip(): value.strip() for name, _, value in arguments}
    return {name: value for name, value in values.items() if name not in WHERE_AND_HOW_FAST or name in _WHICH}


def how_asked(target: TargetRecord) -> dict[str, Any]:
    """The known settings that distinguish a target's replies from those of other targets of its name."""
    arguments = arguments_of(target.model_args)
    shaping = {name: value for name, value in arguments.items() if name not in WHERE_AND_HOW_FAST}
    settings = {BACKEND: target.model, **shaping, TOKENS: target.max_gen_toks, **target.drawn}
    return {name: value for name, value in settings.items() if value is not None}


def _key(target: TargetRecord) -> str:
    identity = {
        "checkpoint": target_name(arguments_of(target.model_args)),
        "system_instruction": target.system_instruction,
        "apply_chat_template": target.apply_chat_template,
        "how": {name: _plain(value) for name, value in how_asked(target).items()},
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:KEY_DIGITS]


def _plain(value: object) -> str:
    """One text for the spellings of a value: lm-eval keeps arguments as texts, or parsed."""
    text = str(value).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    try:
        return repr(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false", "none") else text


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
