"""What a provider's HTTP response holds: its text, how it ended, and whether the provider withheld it.

:data:`SHAPES` is the list of ways in which providers say that they keep a reply back, one row a way, on the
three protocols that lm-eval's chat types speak (OpenAI's, Anthropic's, and gateways in front of others).
A new provider is a new row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from overbench_tasks.text import encodable

REASON_CHARS: Final = 200
CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
"""The finish reasons of a reply that reached its limit of tokens."""

FINISH: Final = ("choices.0.finish_reason", "stop_reason", "stopReason")
NATIVE: Final = ("choices.0.native_finish_reason",)
"""The word of the provider behind a gateway, which maps it to one of OpenAI's."""
TEXT: Final = ("choices.0.message.content", "choices.0.text", "content")


@dataclass(frozen=True, slots=True)
class Withheld:
    """A provider kept a reply back, or the rest of it.

    Attributes:
        provider: whose way of saying so it is; ``unknown`` where it is nobody's we know.
        reason: in the provider's words.
        category: what it took the prompt or the reply for; "" where it does not say.
    """

    provider: str
    reason: str
    category: str = ""


class Shape(NamedTuple):
    """One way of withholding a reply.

    Attributes:
        provider: who speaks so.
        paths: where the word may stand in the response, first found first tried.
        word: a pattern that is searched there, in any case.
        category: where it may say what for.
        more: where it may explain itself.
        beside: must be in the response as well.
        status: of the HTTP response; None: any.
    """

    provider: str
    paths: tuple[str, ...]
    word: str
    category: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    beside: str = ""
    status: int | None = None


_AZURE_FILTERS = tuple(
    f"{where}.{name}"
    for where in ("error.innererror", "choices.0", "prompt_filter_results.0", "error")
    for name in ("content_filter_results", "content_filter_result")
)
_GOOGLE = r"\b(?:(?:image_)?safety|(?:image_)?prohibited_content|blocklist|spii|recitation|model_armor)\b"
_RATINGS = ("choices.0.safety_ratings", "choices.0.safetyRatings", "promptFeedback.safetyRatings")
_MODERATED = r"moderat|flagged"

SHAPES: Final = (
    Shape("azure", ("error.innererror.code",), "^ResponsibleAIPolicyViolation$", _AZURE_FILTERS),
    Shape("azure", ("error.code",), "^content_filter$", _AZURE_FILTERS),
    Shape("azure", FINISH, "^content_filter$", _AZURE_FILTERS, beside="choices.0.content_filter_results"),
    Shape("google", NATIVE + FINISH, _GOOGLE, _RATINGS),
    Shape("google", ("promptFeedback.blockReason", "prompt_feedback.block_reason"), ".", _RATINGS),
    Shape("bedrock", NATIVE + FINISH, "^(?:guardrail_intervened|content_filtered)$"),
    Shape(
        "anthropic", NATIVE + FINISH, "^refusal$", ("stop_details.category",), ("stop_details.explanation",)
    ),
    Shape("openai", FINISH, "^content_filter$"),
    Shape("openai", ("choices.0.message.refusal",), "."),
    Shape("openai", ("error.code",), "^(?:content_policy_violation|moderation_blocked)$"),
    Shape("openai", ("error.message",), "^Invalid prompt: your prompt was flagged", status=400),
    Shape("xai", ("error",), "^Content violates usage guidelines"),
    Shape("gateway", ("error.metadata.reasons",), ".", ("error.metadata.reasons",), ("error.message",)),
    Shape("gateway", ("error.code", "error.type", "error.message", "message"), _MODERATED, status=403),
    Shape("gateway", NATIVE, "content_filter"),
)

ORDINARY: Final = frozenset(
    {"stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "finished", "none", "null"}
    | {"tool_calls", "tool_use", "function_call", "pause_turn", "model_context_window_exceeded", *CUT}
)
"""The finish reasons of replies that nobody withheld."""
BROKEN: Final = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "timeout", "insufficient_system_resource"}
)
"""Those of replies that came to nothing for a technical reason."""

_BLOCK_WORD = re.compile(
    r"content.?(?:filter|polic|block|violat)|safety|moderat|guardrail|refus|block|prohibit|sensitive|flagged"
    r"|censor|polic|violat|forbidden.?content",
    re.IGNORECASE,
)
_BLOCK_CODE = re.compile(
    r"content.?(?:filter|polic|block|violat|inspect)|(?:prompt|input|output|request|response).?"
    r"(?:block|filter|violat)|data.?inspection|guardrail|moderat|policy.?violat|safety.?(?:block|violat|filter)"
    r"|sensitive.?content",
    re.IGNORECASE,
)
_REFUSING_STATUSES: Final = (400, 403, 422, 451)


def finish_reason(said: Any) -> str | None:
    """How a reply ended, in the API's word, in a response's JSON; None where it does not say."""
    return _word(said, FINISH)


def withheld(status: int, said: Any) -> Withheld | None:
    """Who withheld the reply, in a response's JSON of any shape; None: nobody says so."""
    for shape in SHAPES:
        if shape.status not in (None, status) or (shape.beside and _at(said, shape.beside) is None):
            continue
        for path in shape.paths:
            word = _at(said, path)
            word = _listed(word) if isinstance(word, list) else word
            if isinstance(word, str) and re.search(shape.word, word, re.IGNORECASE):
                more = _word(said, shape.more)
                reason = " ".join(f"{word}: {more}".split() if more else word.split())
                category = next(filter(None, (_listed(_at(said, one)) for one in shape.category)), "")
                return Withheld(shape.provider, _line(reason), _line(category))
    return _unknown(status, said, finish_reason(said))


def _unknown(status: int, said: Any, finish: str | None) -> Withheld | None:
    """A block in words that no shape has: of an error by its code, else by how the reply ended."""
    if status >= 300:
        codes = (_word(said, [path]) or "" for path in ("error.code", "error.type", "error.status", "code"))
        found = next(filter(_BLOCK_CODE.search, codes), None)
        return Withheld("unknown", _line(found)) if found and status in _REFUSING_STATUSES else None
    if not finish or finish.lower() in ORDINARY | BROKEN:
        return None
    kept_back = _BLOCK_WORD.search(finish) is not None or not (text_of(said) or "").strip()
    return Withheld("unknown", _line(finish)) if kept_back else None


def text_of(said: Any) -> str | None:
    """The text of a completion, "" where its content is null or empty; None where it is no completion."""
    found: Any = next((value for path in TEXT if (value := _at(said, path)) is not None), None)
    if isinstance(found, list):
        parts = [part.get("text") for part in found if isinstance(part, dict)]
        found = "".join(part for part in parts if isinstance(part, str))
    if found is None and (isinstance(_at(said, "choices.0.message"), dict) or _word(said, FINISH)):
        return ""
    return encodable(found) if isinstance(found, str) else None


def _at(value: Any, path: str) -> Any:
    """What stands at ``choices.0.message`` and the like; None where nothing does."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _word(said: Any, paths: Iterable[str]) -> str | None:
    return next((word for path in paths if isinstance(word := _at(said, path), str) and word), None)


def _listed(value: Any) -> str:
    """The categories that a block names: a word, a list of words or ratings, or Azure's results by name."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        hit = [(name, one) for name, one in value.items() if isinstance(one, dict) and one.get("filtered")]
        return ", ".join(f"{name}: {one['severity']}" if one.get("severity") else name for name, one in hit)
    if isinstance(value, list):
        named = [
            one.get("category") if isinstance(one, dict) and one.get("blocked") else one for one in value
        ]
        return ", ".join(one for one in named if isinstance(one, str))
    return ""


def _line(text: str) -> str:
    return encodable(" ".join(text.split())[:REASON_CHARS])
