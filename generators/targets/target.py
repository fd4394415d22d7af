"""A target: one checkpoint as lm-eval would evaluate it, ready to be asked prompts.

Context and decoding come from the ``overbench`` task itself, so that what a refresh sees is what
``lm_eval --tasks overbench_model`` will see later.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.refreshed import target_name

ROOM: Final = "--set target.max_gen_toks=4096"
"""How a refresh leaves a target room for its reasoning."""


class TargetSettings(BaseModel):
    """lm-eval's own names and meanings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("hf", description="lm-eval's model type.")
    model_args: str = Field(description="lm-eval's model arguments, e.g. pretrained=NAME.")
    batch_size: str = Field(
        "16", description="As in lm_eval: an integer or auto.", coerce_numbers_to_str=True
    )
    device: str | None = Field(None, description="As in lm_eval: cpu, cuda, mps. Default: lm-eval's choice.")
    system_instruction: str | None = Field(None, description="As in lm_eval.")
    apply_chat_template: bool = Field(True, description="As in lm_eval. Turn off for a base model.")
    max_gen_toks: int | None = Field(
        None, gt=0, description="New tokens per reply. Default: as the tasks, so that labels agree."
    )

    @property
    def name(self) -> str:
        """What tells this target from others, as the task ``overbench_model`` finds it."""
        from lm_eval.utils import simple_parse_args_string

        return target_name(simple_parse_args_string(self.model_args)) or f"{self.model}:{self.model_args}"


class Asked(Protocol):
    """Whatever can be asked prompts: a :class:`Target`, or a scripted one in a test."""

    @property
    def name(self) -> str:
        """Tells one target from another."""

    @property
    def decoding(self) -> str:
        """Tells one way of asking from another."""

    def replies(self, prompts: Sequence[str]) -> list[str]:
        """One reply per prompt, in order."""


class Target:
    """A target that loads its model when it is first asked."""

    def __init__(self, settings: TargetSettings) -> None:
        self.settings = settings
        self.name = settings.name

    @cached_property
    def _task(self) -> Any:
        from lm_eval.tasks import TaskManager

        from overbench_tasks.autoload import tasks_path

        loaded = TaskManager(include_path=str(tasks_path()), include_defaults=False).load(["overbench"])
        return loaded["tasks"]["overbench"]

    @cached_property
    def _asked_how(self) -> dict[str, Any]:
        return self.settings.model_dump(include={"system_instruction", "apply_chat_template"})

    @cached_property
    def generation(self) -> dict[str, Any]:
        """The generation settings that lm-eval's backend receives."""
        more = self.settings.model_dump(include={"max_gen_toks"}, exclude_none=True)
        return copy.deepcopy(dict(self._task.config.generation_kwargs)) | more

    @cached_property
    def decoding(self) -> str:
        """12 hex digits over all that shapes a reply besides model and prompt."""
        shaping = {"generation": self.generation, **self._asked_how}
        return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def _lm(self) -> Any:
        from lm_eval.api.registry import get_model
        from lm_eval.utils import simple_parse_args_string

        from overbench_tasks.task import watch

        settings = self.settings
        more = {"batch_size": settings.batch_size, "device": settings.device}
        try:
            backend = get_model(settings.model)
            lm = backend.create_from_arg_obj(simple_parse_args_string(settings.model_args), more)
        except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
            raise OverbenchError(
                f"lm-eval cannot load {self._flags}: {error} Try the same with lm_eval --limit 1."
            ) from error

        watch(lm, ROOM)
        return lm

    @property
    def _flags(self) -> str:
        return f"--model {self.settings.model} --model_args {self.settings.model_args}"

    def context(self, prompt: str) -> Any:
        """What the backend receives for ``prompt``, as in an evaluation: text, or messages for a chat API."""
        template = self._lm.apply_chat_template if self.settings.apply_chat_template else None
        how = {"chat_template": template, **self._asked_how}
        return self._task.fewshot_context({"prompt": prompt}, 0, **how)

    def replies(self, prompts: Sequence[str]) -> list[str]:
        """One reply per prompt, in order, as the backend gives them; it sorts by length and batches.

        Raises:
            OverbenchError: the model cannot be loaded or asked.
        """
        import aiohttp
        import tenacity

        from overbench_tasks.harness import generation_request
        from overbench_tasks.task import look_for_reasoning, with_opening

        if not prompts:
            return []
        requests = [
            generation_request("overbench", index, {"prompt": prompt}, self.context(prompt), self.generation)
            for index, prompt in enumerate(prompts)
        ]
        try:
            replies = self._lm.generate_until(requests)
        except (OSError, RuntimeError, aiohttp.ClientError, tenacity.RetryError) as error:
            raise OverbenchError(
                f"Asking {self._flags} failed: {type(error).__name__}: {error} "
                "Earlier replies are kept: start the same command again."
            ) from error
        asked = zip(requests, replies, strict=True)
        shown = [with_opening(self._lm, request.args[0], reply) for request, reply in asked]
        look_for_reasoning(self._lm, shown, ROOM)
        return shown
