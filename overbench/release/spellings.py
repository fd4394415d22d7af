"""A prompt as the tables of a release hold it: its text, or of a conversation its messages behind a mark.

Two spellings with one :func:`spelling_id` are one prompt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.conversations import Message, messages_as_json, messages_of
from overbench_tasks.prompts.prompt_rows import identity_of, normalised
from overbench_tasks.text import encodable

CONVERSATION_MARK: Final = "\ue000"
"""Stands before the JSON of a conversation: a character that no prompt has use for."""


def spelling(prompt: str, messages: Sequence[Message] = ()) -> str:
    """The spelling of a prompt."""
    return CONVERSATION_MARK + encodable(messages_as_json(messages)) if messages else prompt


def spelling_id(text: str) -> str:
    """The id of the prompt that is spelled so: :func:`~overbench_tasks.prompts.prompt_rows.identity_of`. A
    prompt that only begins with the mark is a prompt."""
    if text.startswith(CONVERSATION_MARK):
        try:
            messages = messages_of({"messages": text.removeprefix(CONVERSATION_MARK)})
        except OverbenchError:
            return identity_of(text)
        if messages:
            return identity_of(messages[-1]["content"], messages)
    return identity_of(text)


def compared_text(prompt: str, messages: str | None) -> str:
    """What near duplicates are found by: the prompt, or the whole conversation.

    Args:
        messages: as JSON text.
    """
    if not messages:
        return normalised(prompt)
    return normalised(" ".join(message["content"] for message in json.loads(messages)))
