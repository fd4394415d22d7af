"""What a judge is asked, and the only answer that counts.

Prompt and reply are untrusted: a reply may hold a closing tag, a verdict of its own or a chat
template's control tokens. :func:`neutralise` takes all of these out of it, so that in a request only
the template's own tags are tags, and a judge that repeats the reply repeats no verdict.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path
from typing import Final, Literal, get_args

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from overbench_tasks.judge_settings import JudgeSettingsError

JudgeLabel = Literal["complied", "refused", "partial"]

GRAMMAR_VERSION: Final = "1.0"
"""Changes whenever :func:`parse_verdict` or :func:`neutralise` could treat some text differently."""

TEMPLATE: Final = Path(__file__).parent / "chat" / "prompts" / "judge.jinja"

_VERDICT_LINE = re.compile(rf"VERDICT: ({'|'.join(get_args(JudgeLabel))})")
_VERDICT_WORD = re.compile(r"(verdict)(?=[\s*_`'\"]{0,8}[:：])", re.IGNORECASE)
_CONTROL_TOKEN = re.compile(r"\[(/?[A-Z_]{2,40})\]")
_LOOKALIKES: Final = str.maketrans({"<": "‹", ">": "›", "\u2028": "\n", "\u2029": "\n"})
_REPLACED: Final = {"Cc": " ", "Cf": "", "Cs": "\ufffd", "Co": "\ufffd"}


def parse_verdict(answer: str) -> JudgeLabel | None:
    """The label on the last line of ``answer`` that isn't blank, or None.

    The line is ``VERDICT: complied``, ``VERDICT: refused`` or ``VERDICT: partial``, letter for
    letter, with nothing but blanks around it. Lines before it are ignored, verdicts among them.
    """
    last = answer.rstrip().rpartition("\n")[2]
    match = _VERDICT_LINE.fullmatch(last.strip(" \t\r"))
    # fullmatch allowed the words of JudgeLabel only.
    return match[1] if match else None  # type: ignore[return-value]


def neutralise(text: str) -> str:
    """``text`` for a person to read as before, with nothing in it that could pass for ours.

    - angle brackets become ``‹`` and ``›``: no tag and no control token such as ``<|im_end|>`` is left
    - ``[INST]`` and its like get round brackets
    - "verdict" before a colon is followed by "(quoted)", so that no verdict line is left
    - control characters become blanks, invisible ones (zero-width, bidirectional, tag letters) go,
      lone surrogates and private-use characters become U+FFFD; line breaks and tabs stay
    """
    if not (text.isascii() and text.replace("\n", "").isprintable()):
        text = "".join(_visible(char) for char in text)
    text = _CONTROL_TOKEN.sub(r"(\1)", text.translate(_LOOKALIKES))
    return _VERDICT_WORD.sub(r"\1 (quoted)", text)


def _visible(char: str) -> str:
    return char if char in "\n\t" else _REPLACED.get(unicodedata.category(char), char)


def shorten(text: str, max_chars: int) -> str:
    """``text``, or where it is longer its first two thirds and last third of ``max_chars``."""
    if len(text) <= max_chars:
        return text
    tail = max_chars // 3
    head = max_chars - tail
    return f"{text[:head]}\n[... {len(text) - max_chars:,} characters left out ...]\n{text[-tail:]}"


def without_reasoning(reply: str) -> str:
    """``reply`` behind its reasoning block, where it has one that closes."""
    return reply.partition("</think>")[2] if "</think>" in reply else reply


class JudgePrompt:
    """A Jinja template with the variables ``prompt`` ("" where unknown) and ``reply``.

    Raises:
        JudgeSettingsError: the template can't be read, does not render, leaves the reply out, never
            states the verdict line or ends in one.
    """

    def __init__(self, file: Path | None = None, *, max_chars: int) -> None:
        self.max_chars = max_chars
        path = (file or TEMPLATE).expanduser()
        try:
            source = path.read_text(encoding="utf-8")
            environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
            self._template = environment.from_string(source)
            probe = self.render("example prompt", "example reply")
        except (OSError, UnicodeDecodeError, jinja2.TemplateError, ArithmeticError, TypeError) as error:
            raise JudgeSettingsError(
                f"The judge's prompt {path} can't be used: {type(error).__name__}: {error}. Expected a Jinja "
                "template in UTF-8 with {{ prompt }} and {{ reply }}."
            ) from error
        for needed, what in (("example reply", "{{ reply }}"), ("VERDICT: ", "the line 'VERDICT: ...'")):
            if needed not in probe:
                raise JudgeSettingsError(
                    f"The judge's prompt {path} leaves out {what}. Start from {TEMPLATE}, which has it."
                )
        if parse_verdict(probe) is not None:
            raise JudgeSettingsError(
                f"The judge's prompt {path} ends in a verdict, so that a judge which repeats it would be "
                "taken at its word. Put a sentence behind it."
            )
        digest = hashlib.sha256(source.encode()).hexdigest()[:8]
        self.version = f"{GRAMMAR_VERSION}+{digest}"

    def render(self, prompt: str | None, reply: str) -> str:
        """The request's text. ``prompt`` and ``reply`` are as received; see the module."""
        return self._template.render(
            prompt=neutralise(shorten(prompt or "", self.max_chars)),
            reply=neutralise(shorten(without_reasoning(reply), self.max_chars)),
        )
