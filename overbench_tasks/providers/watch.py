"""Sees replies as they arrive, for reasoning that never ends to be said before a run has ended as well."""

from __future__ import annotations

from typing import Any, Final

from overbench_tasks import advice
from overbench_tasks.providers.model_reply import settled
from overbench_tasks.refusal import label_reply

_OPENING: Final = "<think>"


def watch(lm: Any, room: str = advice.ROOM) -> None:
    """Say of ``lm`` that it thinks for too long, as soon as that shows; see :class:`ReplyWatch`.

    Args:
        lm: lm-eval's model, without its cache.
        room: see :func:`~overbench_tasks.advice.reasoning_advice`.
    """
    hook = getattr(lm, "cache_hook", None)
    if hook is not None and hasattr(hook, "dbdict"):
        lm.cache_hook = ReplyWatch(hook.hook if isinstance(hook, ReplyWatch) else hook, lm, room)


class ReplyWatch:
    """Stands in a model's cache hook, where lm-eval's backends put each reply as it arrives.

    So it is said while the model still generates: by the API types with each reply, by hf with each batch,
    by vllm, which puts all replies there at once, only then. A backend that has no use for the hook is
    found by the filters, at the end.
    """

    def __init__(self, hook: Any, lm: Any, room: str) -> None:
        self.hook, self.dbdict = hook, hook.dbdict
        self._lm, self._room = lm, room
        self._seen = self._unfinished = 0

    def add_partial(self, attr: str, req: Any, res: Any) -> None:
        """Count one reply, and hand it on to lm-eval's cache."""
        self.hook.add_partial(attr, req, res)
        if attr == "generate_until" and self._seen < advice.FIRST_REPLIES:
            self._seen += 1
            reply = res or ""  # lm-eval 0.5 puts null content there as it came
            self._unfinished += is_unfinished(with_opening(reply) if opens_reasoning(req[0]) else reply)
            if self._seen == advice.FIRST_REPLIES:
                advice.unfinished_reasoning(self._lm, self._unfinished, self._seen, self._room)


def is_unfinished(reply: str) -> bool:
    """Whether a reply ends inside its reasoning."""
    return (settled(reply) or label_reply(reply)).reason == "unfinished_reasoning"


def opens_reasoning(context: Any) -> bool:
    """Whether the chat template has opened the reasoning itself, so that the reply can't."""
    return isinstance(context, str) and context.rstrip().endswith(_OPENING)


def with_opening(reply: str) -> str:
    """With the tag that the template holds, where the reasoning it opens never ends."""
    return reply if "</think>" in reply else f"{_OPENING}{reply}"
