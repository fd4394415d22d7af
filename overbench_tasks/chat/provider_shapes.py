"""What a provider's HTTP response holds: its text, how it ended, and whether the provider withheld it.

:data:`SHAPES` lists the ways in which providers say that they withhold a reply, on the three protocols that
lm-eval's chat types speak (OpenAI's, Anthropic's, and gateways in front of others). A new provider is a new
row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from overbench_tasks.text import encodable, printable

REASON_CHARS: Final = 200
"""The most that is kept of a provider's words; they are kept on one line that a terminal may show."""
SEARCHED_CHARS: Final = 2000
"""The most of a text in a response that is searched for the words of a block."""
UNKNOWN: Final = "unknown"
"""The provider of a block whose words are in no shape."""
CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
"""The finish reasons of a reply that reached its limit of tokens."""

FINISH: Final = ("choices.0.finish_reason", "stop_reason", "stopReason")
NATIVE: Final = ("choices.0.native_finish_reason",)
"""The word of the provider behind a gateway, which maps it to one of OpenAI's."""
TEXT: Final = ("choices.0.message.content", "choices.0.text", "content")


@dataclass(frozen=True, slots=True)
class Withheld:
    """A provider withheld a reply, or the rest of it.

    Attributes:
        provider: the provider whose shape the response has; :data:`UNKNOWN` where it has none.
        reason: in the provider's words.
        category: the kind of content that the provider names; "" where it names none.
    """

    provider: str
    reason: str
    category: str = ""


class Shape(NamedTuple):
    """One way of withholding a reply.

    Attributes:
        provider: the provider that uses it.
        paths: where the response may hold the telling text; they are tried in this order.
        word: a pattern that is searched in that text, in any case. Its group ``reason`` is the reason;
            without such a group the whole text is. Its group ``category`` is the category.
        category: further paths to the category.
        more: paths to an explanation.
        beside: a path that the response must have as well.
        status: of the HTTP response; None: any.
        unless: a pattern that the text must not hold.
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
"""Matters of the sender or of the request's form. An error about them rejects no content."""

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
"""The finish reasons of replies that were not withheld."""
BROKEN: Final = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "timeout", "insufficient_system_resource"}
)
"""The finish reasons of replies that failed for a technical reason."""

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
"""Several words in quotation marks: an error may repeat the prompt."""
_REFUSING_STATUSES: Final = (400, 403, 422, 451)


def finish_reason(response: Any) -> str | None:
    """How a reply ended, in the API's word; None where the response does not say.

    Args:
        response: the JSON of an HTTP response, of any shape.
    """
    finish = _text_at(response, FINISH)
    return None if finish is None else _line(finish)


def withheld(status: int, response: Any) -> Withheld | None:
    """Who withheld the reply; None where the response does not say that it was withheld.

    Args:
        status: of the HTTP response.
        response: its JSON, of any shape.
    """
    for shape in SHAPES:
        wrong_status = shape.status not in (None, status)
        if wrong_status or (shape.beside and _value_at(response, shape.beside) is None):
            continue
        for path in shape.paths:
            if (match := _match(shape, _value_at(response, path))) is not None:
                return _withheld_by(shape, match, response)
    if status >= 300:
        return _unknown_error(response) if status in _REFUSING_STATUSES else None
    return _unknown_end(response, finish_reason(response))


def _match(shape: Shape, value: Any) -> re.Match[str] | None:
    """The match of a shape's pattern in what stands at one of its paths."""
    text = _categories(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        return None
    text = text[:SEARCHED_CHARS]
    if shape.unless and re.search(shape.unless, _in_words(text), re.IGNORECASE):
        return None
    return re.search(shape.word, text, re.IGNORECASE | re.DOTALL)


def _withheld_by(shape: Shape, match: re.Match[str], response: Any) -> Withheld:
    groups = match.groupdict()
    reason = groups.get("reason") or match.string
    if explanation := _text_at(response, shape.more):
        reason = f"{reason}: {explanation}"
    named = (_categories(_value_at(response, path)) for path in shape.category)
    category = groups.get("category") or next(filter(None, named), "")
    return Withheld(shape.provider, _line(reason), _line(category))


def _unknown_error(response: Any) -> Withheld | None:
    """A block in an error of no known shape, recognised by its code or by a sentence of its message."""
    codes = [text for path in _CODES if (text := _text_at(response, [path]))]
    code = next((text for text in codes if _BLOCK_CODE.search(text) and not _is_other_matter(text)), None)
    sentences = [sentence for path in _MESSAGES for sentence in _sentences(_text_at(response, [path]) or "")]
    on_content = [sentence for sentence in sentences if not _is_other_matter(sentence)]
    blocked = next((sentence for sentence in on_content if _BESIDE.search(_in_words(sentence))), None)
    if code and (blocked or len(on_content) == len(sentences)):
        return Withheld(UNKNOWN, _line(code))
    return Withheld(UNKNOWN, _line(blocked)) if blocked else None


def _unknown_end(response: Any, finish: str | None) -> Withheld | None:
    """A block in a success of no known shape, recognised by how the reply ended."""
    if not finish or finish.lower() in ORDINARY | BROKEN:
        return None
    is_block = _BLOCK_WORD.search(finish) is not None or not (text_of(response) or "").strip()
    return Withheld(UNKNOWN, finish) if is_block else None


def _sentences(message: str) -> list[str]:
    """The sentences of an error's message, without what it quotes."""
    text = _QUOTED.sub(" ", " ".join(message.split()))
    return re.split(r"(?<=[.!?])\s", text)


def _is_other_matter(text: str) -> bool:
    return _MATTER.search(_in_words(text)) is not None


def _in_words(text: str) -> str:
    """``api_key`` and ``ApiKey`` as two words."""
    return re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", text)


def text_of(response: Any) -> str | None:
    """The text of a completion, "" where its content is null or empty; None where it is no completion."""
    values = (_value_at(response, path) for path in TEXT)
    content: Any = next((value for value in values if value is not None), None)
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is None:
        is_completion = isinstance(_value_at(response, "choices.0.message"), dict)
        return "" if is_completion or _text_at(response, FINISH) else None
    return encodable(content) if isinstance(content, str) else None


def tool_calls_of(response: Any) -> list[dict[str, Any]]:
    """The native tool calls of a completion of OpenAI's or Anthropic's API, each as ``tool`` and
    ``arguments``; arguments that are no JSON stay text."""
    calls = _value_at(response, "choices.0.message.tool_calls")
    functions = [call.get("function") for call in _dicts(calls)]
    openai = [(function.get("name"), function.get("arguments")) for function in _dicts(functions)]
    parts = _dicts(_value_at(response, "content"))
    anthropic = [(part.get("name"), part.get("input")) for part in parts if part.get("type") == "tool_use"]
    return [{"tool": name, "arguments": _as_json(arguments)} for name, arguments in [*openai, *anthropic]]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _as_json(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return arguments
    return {} if arguments is None else arguments


def _value_at(value: Any, path: str) -> Any:
    """What stands at a path such as ``choices.0.message``; None where nothing does."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text_at(response: Any, paths: Iterable[str]) -> str | None:
    """The first text that stands at one of the paths, its beginning; None where none does."""
    for path in paths:
        text = _value_at(response, path)
        if isinstance(text, str) and text:
            return text[:SEARCHED_CHARS]
    return None


def _categories(value: Any) -> str:
    """The categories that a block names: a word, a list of words or ratings, or Azure's results by name."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        hits = {name: hit for name, hit in value.items() if isinstance(hit, dict) and hit.get("filtered")}
        return ", ".join(
            f"{name}: {hit['severity']}" if hit.get("severity") else name for name, hit in hits.items()
        )
    if isinstance(value, list):
        names = [
            rating.get("category") if isinstance(rating, dict) and rating.get("blocked") else rating
            for rating in value
        ]
        return ", ".join(name for name in names if isinstance(name, str))
    return ""


def _line(text: str) -> str:
    """A provider's words as they are kept and shown: short, on one line, without control characters."""
    return printable(text[:SEARCHED_CHARS])[:REASON_CHARS]
