"""A target: one checkpoint as lm-eval would evaluate it, ready to be asked prompts.

Context and decoding come from the ``overbench`` task itself, so that what a refresh sees is what
``lm_eval --tasks overbench_model`` will see later.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

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
    device: str | None = Field(None, description="As in lm_eval: cpu, cuda, mps. Default: lm_eval's choice.")
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


class Question(NamedTuple):
    """One prompt under one system instruction, in place of the target's own; None: without any."""

    prompt: str
    system_instruction: str | None


def default_device() -> str:
    """Where ``lm_eval`` puts a model for which no device is named: the first CUDA device, else the CPU.

    lm-eval's classes and its ``simple_evaluate`` take CUDA for granted where no device is named.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    return str(EvaluatorConfig.device)


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
    """A target that loads its model when it is first asked.

    Args:
        settings: which, and how it is asked.
        generation: generation settings of lm-eval's on top of the task's, such as ``temperature``.
    """

    def __init__(self, settings: TargetSettings, generation: Mapping[str, Any] | None = None) -> None:
        self.settings = settings
        self.name = settings.name
        self._more_generation = dict(generation or {})

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
        return copy.deepcopy(dict(self._task.config.generation_kwargs)) | more | self._more_generation

    @cached_property
    def decoding(self) -> str:
        """12 hex digits over all that shapes a reply besides model and prompt."""
        shaping = {"generation": self.generation, **self._asked_how}
        return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def _lm(self) -> Any:
        from lm_eval.api.registry import get_model
        from lm_eval.utils import simple_parse_args_string

        from overbench_tasks.lm_eval_compat import without_seed
        from overbench_tasks.task import watch

        settings = self.settings
        arguments = simple_parse_args_string(settings.model_args)
        device = settings.device or arguments.pop("device", default_device())
        try:
            backend = get_model(settings.model)
            lm = backend.create_from_arg_obj(arguments, {"batch_size": settings.batch_size, "device": device})
        except Exception as error:  # a backend can fail in any way of its own
            raise OverbenchError(
                f"lm-eval cannot load {self._flags}: {type(error).__name__}: {error} Try the same with "
                "lm_eval --limit 1, which shows where it fails."
            ) from error

        watch(lm, ROOM)
        if self._more_generation.get("do_sample"):
            without_seed(lm)
        return lm

    @property
    def _flags(self) -> str:
        return f"--model {self.settings.model} --model_args {self.settings.model_args}"

    def context(self, prompt: str) -> Any:
        """What the backend receives for ``prompt``, as in an evaluation: text, or messages for a chat API."""
        return self._context(Question(prompt, self.settings.system_instruction))

    def _context(self, question: Question) -> Any:
        template = self._lm.apply_chat_template if self.settings.apply_chat_template else None
        how = {**self._asked_how, "system_instruction": question.system_instruction}
        return self._task.fewshot_context({"prompt": question.prompt}, 0, chat_template=template, **how)

    def replies(self, prompts: Sequence[str]) -> list[str]:
        """One reply per prompt, in order, as the backend gives them; it sorts by length and batches.

        Raises:
            OverbenchError: the model cannot be loaded or asked.
        """
        return self.answers([Question(prompt, self.settings.system_instruction) for prompt in prompts])

    def answers(
        self, questions: Sequence[Question], came: Callable[[int, str], object] | None = None
    ) -> list[str]:
        """As :meth:`replies`, with a system instruction for each prompt.

        Args:
            came: told the place and the reply of each question as soon as its reply is there, by backends
                that put replies into lm-eval's cache one by one; of equal questions the places go by turns.
        """
        from overbench_tasks.lm_eval_compat import hearing_replies
        from overbench_tasks.task import look_at_first_replies, with_opening

        if not questions:
            return []
        contexts = [self._context(one) for one in questions]
        asked = [
            (one.prompt, context, self.generation) for one, context in zip(questions, contexts, strict=True)
        ]
        with hearing_replies(self._lm, came and self._by_place(contexts, came)):
            replies = self._sent("generate_until", asked)
        shown = [
            with_opening(self._lm, context, reply) for context, reply in zip(contexts, replies, strict=True)
        ]
        look_at_first_replies(self._lm, shown, ROOM)
        return shown

    def _by_place(
        self, contexts: Sequence[Any], came: Callable[[int, str], object]
    ) -> Callable[[Any, str | None], None]:
        """Tells ``came`` of a reply by the place of its context; of equal contexts the places go by turns."""
        from overbench_tasks.task import with_opening

        places: dict[str, list[int]] = {}
        for place, context in enumerate(contexts):
            places.setdefault(str(context), []).append(place)

        def hear(context: Any, reply: str | None) -> None:
            waiting = places.get(str(context))
            if reply is not None and waiting:
                place = waiting.pop(0)
                came(place, with_opening(self._lm, contexts[place], reply))

        return hear

    def log_probabilities(self, replies: Sequence[tuple[Question, str]]) -> list[float]:
        """The log-probability (natural, at most 0) that the answer to each question begins with that text.

        lm-eval counts white space at the end of the context to the text that follows. Behind a chat template
        that is the line break after the role, which some models were never trained to predict: a second
        request tells its share, which is taken off again.

        Raises:
            OverbenchError: as :meth:`replies`, or the backend gives no log-probabilities of given text.
        """
        contexts = {question: self._context(question) for question, _ in replies}
        bare = {one: text.rstrip() if isinstance(text, str) else text for one, text in contexts.items()}
        blanks = {one: text[len(bare[one]) :] for one, text in contexts.items() if text != bare[one]}
        asked = [(question.prompt, contexts[question], text) for question, text in replies]
        asked += [(question.prompt, bare[question], blank) for question, blank in blanks.items()]
        found = [float(one[0]) for one in self._sent("loglikelihood", asked)] if asked else []
        shares = dict(zip(blanks, found[len(replies) :], strict=True))
        return [
            whole - shares.get(question, 0.0)
            for (question, _), whole in zip(replies, found[: len(replies)], strict=True)
        ]

    def _sent(self, kind: str, asked: Sequence[tuple[str, Any, Any]]) -> list[Any]:
        """What the backend's method of that name makes of (prompt, context, what is asked)."""
        import aiohttp
        import tenacity

        from overbench_tasks.lm_eval_compat import model_request

        requests = [
            model_request(kind, "overbench", index, {"prompt": prompt}, context, what)
            for index, (prompt, context, what) in enumerate(asked)
        ]
        try:
            return list(getattr(self._lm, kind)(requests))
        except NotImplementedError as error:
            raise OverbenchError(
                f"{self._flags}: this backend gives no log-probabilities of given text; hf, vllm and "
                "local-completions do. Leave --refusal_probability out."
            ) from error
        except (OSError, RuntimeError, aiohttp.ClientError, tenacity.RetryError) as error:
            raise OverbenchError(
                f"Asking {self._flags} failed: {type(error).__name__}: {error} "
                "Earlier replies are kept: start the same command again."
            ) from error
