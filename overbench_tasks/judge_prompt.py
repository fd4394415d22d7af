"""What a judge is asked, and the only answer that counts.

Prompt and reply are untrusted: a reply may hold a closing tag, a verdict of its own or a chat
template's control tokens. :func:`text.neutralise` takes all of these out of it, so that in a request only
the template's own tags are tags, and a judge that repeats the reply repeats no verdict.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final, Literal, get_args

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from overbench_tasks.judge_settings import JudgeSettingsError
from overbench_tasks.text import neutralise, shorten, without_reasoning

JudgeLabel = Literal["complied", "refused", "partial"]

GRAMMAR_VERSION: Final = "1.0"
"""Changes whenever :func:`parse_verdict` or :func:`text.neutralise` could treat some text differently."""

TEMPLATE: Final = Path(__file__).parent / "chat" / "prompts" / "judge.jinja"

_VERDICT_LINE = re.compile(rf"VERDICT: ({'|'.join(get_args(JudgeLabel))})")


def parse_verdict(answer: str) -> JudgeLabel | None:
    """The label on the last line of ``answer`` that isn't blank, or None.

    The line is ``VERDICT: complied``, ``VERDICT: refused`` or ``VERDICT: partial``, letter for
    letter, with nothing but blanks around it. Lines before it are ignored, verdicts among them.
    """
    last = answer.rstrip().rpartition("\n")[2]
    match = _VERDICT_LINE.fullmatch(last.strip(" \t\r"))
    # fullmatch allowed the words of JudgeLabel only.
    return match[1] if match else None  # type: ignore[return-value]


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
