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

from overbench_tasks.text import encodable, printable

REASON_CHARS: Final = 200
"""Of what a provider says, so much is kept, on one line that a terminal may show."""
SEARCHED_CHARS: Final = 2000
"""Of each text in a response, so much is looked at for the words of a block."""
UNKNOWN: Final = "unknown"
"""The provider of a block in words that no shape has."""
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
        provider: whose way of saying so it is; :data:`UNKNOWN` where it is nobody's we know.
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
        word: a pattern that is searched there, in any case. What its group ``reason`` matches is the reason,
            without such a group all that stands there; its group ``category`` says what for.
        category: where else it may say what for.
        more: where it may explain itself.
        beside: must be in the response as well.
        status: of the HTTP response; None: any.
        unless: a pattern that may not be found in what stands there.
    """

    provider: str
    paths: tuple[str, ...]
    word: str
    category: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    beside: str = ""
    status: int | None = None
    unless: str = ""


_LITELLM = "error.provider_specific_fields"
_AZURE_FILTERS = tuple(
    f"{where}.{name}"
    for where in (
        "error.innererror",
        f"{_LITELLM}.innererror",
        "choices.0",
        "prompt_filter_results.0",
        "error",
    )
    for name in ("content_filter_results", "content_filter_result")
)
_GOOGLE = r"\b(?:(?:image_)?safety|(?:image_)?prohibited_content|blocklist|spii|recitation|model_armor)\b"
_RATINGS = ("choices.0.safety_ratings", "choices.0.safetyRatings", "promptFeedback.safetyRatings")
_OTHER_MATTER = (
    r"\b(?:IPs?|regions?|regional|countr(?:y|ies)|territor(?:y|ies)|accounts?|keys?|quotas?"
    r"|organi[sz]ations?|billing|rate limits?|tokens?|length|too (?:long|large|many))\b"
    r"|\baccess\b.*\bmodels?\b|\bmodels?\b.*\baccess\b"
)
"""Who speaks of these turns away the sender, or the request's form, and not its content."""

SHAPES: Final = (
    Shape(
        "azure",
        ("error.innererror.code", f"{_LITELLM}.innererror.code"),
        "^ResponsibleAIPolicyViolation$",
        _AZURE_FILTERS,
    ),
    Shape("azure", ("error.code",), "^content_filter$", _AZURE_FILTERS),
    Shape(
        "azure",
        ("error.message",),
        r"(?P<reason>The response was filtered .{0,80}\bcontent management policy)",
        _AZURE_FILTERS,
    ),
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
    Shape("openai", ("error.code",), "^(?P<category>cyber|bio)_policy$"),
    Shape(
        "openai",
        ("error.message",),
        "^Invalid prompt: (?:your prompt was flagged|we.ve limited access to this content for safety)",
        status=400,
    ),
    Shape("anthropic", ("error.message",), "(?P<reason>Output blocked by content filtering policy)"),
    # Behind the reason come the team, the key's id and the model.
    Shape(
        "xai",
        ("error", "error.message"),
        r"(?P<reason>Content violates usage guidelines)(?:.*Failed check: (?P<category>\w+))?",
    ),
    Shape("gateway", ("error.metadata.reasons",), ".", ("error.metadata.reasons",), ("error.message",)),
    Shape(
        "gateway",
        ("error.code", "error.type", "error.message", "message"),
        "moderat|flagged",
        status=403,
        unless=_OTHER_MATTER,
    ),
    Shape("gateway", ("error.message",), r"(?P<reason>\bContentPolicyViolationError\b)"),
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
    r"|sensitive.?content|_policy$",
    re.IGNORECASE,
)
_CODES: Final = ("error.code", "error.type", "error.status", "code")
_MESSAGES: Final = (
    "error.message",
    "message",
    "error",
    "detail",
    "detail.message",
    "detail.error",
    "error.0.message",
    "errors.0.message",
)
_CONTENT = r"\b(?:prompt|input|output|content|response)s?\b"
_STOPPED = r"\b(?:blocked|filtered|flagged)\b"
_BESIDE = re.compile(
    rf"{_CONTENT}(?:\W+\w+){{0,6}}?\W+{_STOPPED}|{_STOPPED}(?:\W+\w+){{0,3}}?\W+{_CONTENT}", re.IGNORECASE
)
_MATTER = re.compile(_OTHER_MATTER, re.IGNORECASE)
_QUOTED = re.compile(r"""(?<!\w)(["'`])[^"'`]*\s.*?\1(?!\w)""")
"""Several words in quotation marks: what was asked, as an error may repeat it."""
_REFUSING_STATUSES: Final = (400, 403, 422, 451)


def finish_reason(said: Any) -> str | None:
    """How a reply ended, in the API's word, in a response's JSON; None where it does not say."""
    finish = _word(said, FINISH)
    return None if finish is None else _line(finish)


def withheld(status: int, said: Any) -> Withheld | None:
    """Who withheld the reply, in a response's JSON of any shape; None: nobody says so."""
    for shape in SHAPES:
        if shape.status not in (None, status) or (shape.beside and _at(said, shape.beside) is None):
            continue
        for path in shape.paths:
            word = _at(said, path)
            word = _listed(word) if isinstance(word, list) else word
            if isinstance(word, str) and (match := _search(shape, word[:SEARCHED_CHARS])):
                named = match.groupdict()
                reason = named.get("reason") or word
                if more := _word(said, shape.more):
                    reason = f"{reason}: {more}"
                category = named.get("category") or next(
                    filter(None, (_listed(_at(said, one)) for one in shape.category)), ""
                )
                return Withheld(shape.provider, _line(reason), _line(category))
    if status >= 300:
        return _unknown_error(said) if status in _REFUSING_STATUSES else None
    return _unknown_end(said, finish_reason(said))


def _search(shape: Shape, word: str) -> re.Match[str] | None:
    if shape.unless and re.search(shape.unless, _in_words(word), re.IGNORECASE):
        return None
    return re.search(shape.word, word, re.IGNORECASE | re.DOTALL)


def _unknown_error(said: Any) -> Withheld | None:
    """A block in words that no shape has, of an error: by its code, or by a sentence of its message.

    A code counts where the message is silent, speaks of content that was blocked, or of no other matter; a
    sentence where it speaks of no other matter itself.
    """
    codes = filter(None, (_word(said, [path]) for path in _CODES))
    code = next((one for one in codes if _BLOCK_CODE.search(one) and not _is_other_matter(one)), None)
    sentences = [one for path in _MESSAGES for one in _sentences(_word(said, [path]) or "")]
    on_content = [one for one in sentences if not _is_other_matter(one)]
    blocked = next((one for one in on_content if _BESIDE.search(_in_words(one))), None)
    if code and (blocked or len(on_content) == len(sentences)):
        return Withheld(UNKNOWN, _line(code))
    return Withheld(UNKNOWN, _line(blocked)) if blocked else None


def _unknown_end(said: Any, finish: str | None) -> Withheld | None:
    """The same of a success: by how the reply ended."""
    if not finish or finish.lower() in ORDINARY | BROKEN:
        return None
    kept_back = _BLOCK_WORD.search(finish) is not None or not (text_of(said) or "").strip()
    return Withheld(UNKNOWN, finish) if kept_back else None


def _sentences(message: str) -> list[str]:
    """The sentences of an error's message, without what it quotes."""
    text = _QUOTED.sub(" ", " ".join(message.split()))
    return re.split(r"(?<=[.!?])\s", text)


def _is_other_matter(text: str) -> bool:
    return _MATTER.search(_in_words(text)) is not None


def _in_words(text: str) -> str:
    """``api_key`` and ``ApiKey`` as two words."""
    return re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", text)


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
    """The first text that stands at one of the paths, as far as it is looked at; None where none does."""
    found = (word for path in paths if isinstance(word := _at(said, path), str) and word)
    return next((word[:SEARCHED_CHARS] for word in found), None)


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
    """What a provider says, fit to be kept and shown: short, on one line, without control characters."""
    return printable(text[:SEARCHED_CHARS])[:REASON_CHARS]
