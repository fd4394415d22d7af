"""The context of a prompt in removable parts.

These are the sentences of the system message, and the earlier turns: a user's message with its answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from generators.targets.target import Earlier
from overbench.explain.text_parts import TextPart, sentences_of, without
from overbench_tasks.prompts.conversations import Message


@dataclass(frozen=True)
class EarlierParts:
    """The parts of a conversation before its last message.

    Attributes:
        text: all parts as one text, for people; ``parts`` have their places in it.
        parts: the sentences of the system message, then the turns, which begin with their number.
    """

    text: str
    parts: tuple[TextPart, ...]
    _system: str
    _sentences: tuple[TextPart, ...]
    _turns: tuple[Earlier, ...]

    def without(self, numbers: Collection[int]) -> Earlier:
        """(role, text) of each message that is left when these parts are out."""
        sentences = [number for number in numbers if number < len(self._sentences)]
        system = without(self._system, self._sentences, sentences) if sentences else self._system
        turns = [
            message
            for number, turn in enumerate(self._turns, start=len(self._sentences))
            if number not in numbers
            for message in turn
        ]
        return ((("system", system),) if system else ()) + tuple(turns)


def earlier_of(messages: Sequence[Message]) -> Earlier:
    """(role, text) of the messages before the last one."""
    return tuple((message["role"], message["content"]) for message in messages[:-1])


def earlier_parts(earlier: Earlier) -> EarlierParts:
    """The removable parts of a prompt's context."""
    system = earlier[0][1] if earlier and earlier[0][0] == "system" else ""
    messages = earlier[1:] if system else earlier
    turns = tuple(messages[start : start + 2] for start in range(0, len(messages), 2))
    sentences = tuple(sentences_of(system))
    text, parts = system, list(sentences)
    for number, turn in enumerate(turns, start=1):
        turn_text = f"turn {number}: " + " / ".join(content for _, content in turn)
        text = f"{text}\n\n{turn_text}" if text else turn_text
        parts.append(TextPart(turn_text, ((len(text) - len(turn_text), len(text)),)))
    return EarlierParts(text, tuple(parts), system, sentences, turns)
