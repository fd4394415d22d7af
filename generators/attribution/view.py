"""Shows attributed prompts with their words shaded, in the terminal or as a page: red words make a refusal
more likely, blue words less.

Prompts are hostile text: control characters, escape sequences and marks that turn the writing direction are
shown as visible symbols and never reach the terminal or the page.

The page has a template of its own, of some twenty lines, for two reasons. The template of ``overbench
report`` lies in ``overbench/``, which nothing here may import. And it serves another purpose: it has tables
that a script sorts, and five shades of one colour. This page has no table and no script. Each word has its
own colour, and a title with its scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Literal

from generators.attribution.attribution import Attribution, WordScore
from overbench_tasks.text import visible

Score = Literal["raw", "adjusted"]
"""``raw`` shades every word and mark; ``adjusted`` shades only words that can be features."""

_RED, _BLUE = (190, 40, 40), (40, 80, 200)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="dark light">
<title>Which words make a refusal likely?</title>
<style>
:root {{ color-scheme: dark light; }}
body {{ background: #14161a; color: #e6e6e6; font: 1rem/1.7 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }}
h2 {{ font-size: .85rem; font-weight: normal; color: #9aa0aa; margin: 2rem 0 .2rem; }}
p.prompt {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }}
span {{ border-radius: .2em; padding: .05em .1em; }}
</style>
</head>
<body>
<h1>Which words make a refusal likely?</h1>
<p>Red words make a refusal more likely, blue words less ({score} scores, each prompt on its own scale). Point
at a word for its figures. They are in log-odds of refusal, unless the line above the prompt says
otherwise.</p> {prompts} </body> </html>
"""


def ansi(prompt: str, attribution: Attribution, *, score: Score = "raw") -> str:
    """The prompt for a terminal with 24-bit colours, under a line with its figures.

    Args:
        prompt: the text that was attributed.
        attribution: its attribution.
        score: which scores shade it.
    """
    parts = [summary(attribution), "\n"]
    for text, _, share in _shaded(prompt, attribution, score):
        red, green, blue = _mix((0, 0, 0), share)
        colours = f"\x1b[48;2;{red};{green};{blue}m\x1b[38;2;255;255;255m"
        parts.append(f"{colours}{visible(text)}\x1b[0m" if share else visible(text))
    return "".join(parts) + "\n"


def html(items: Iterable[tuple[str, Attribution]], *, score: Score = "raw") -> str:
    """A page of (prompt, attribution) pairs, which needs no other file and runs no script."""
    return _PAGE.format(score=score, prompts="\n".join(_html_prompt(*item, score) for item in items))


def summary(attribution: Attribution) -> str:
    """A line with id, log-odds of refusal, and whether the scores are reliable."""
    unit = " in probability" if attribution.output == "probability" else ""
    doubt = "" if attribution.converged else ", NOT CONVERGED"
    cut = ", cut at the detector's longest input" if attribution.truncated else ""
    return (
        f"{visible(attribution.prompt_id)}: log-odds of refusal {attribution.log_odds:+.2f} "
        f"(baseline {attribution.baseline_log_odds:+.2f}), "
        f"off by {attribution.delta:+.4f}{unit} after {attribution.steps} steps{doubt}{cut}"
    )


def _html_prompt(prompt: str, attribution: Attribution, score: Score) -> str:
    parts: list[str] = []
    for text, word, share in _shaded(prompt, attribution, score):
        background = "#{:02x}{:02x}{:02x}".format(*_mix((20, 22, 26), share))
        style = f' style="background:{background};color:#fff"' if share else ""
        shown = escape(visible(text))
        parts.append(f'<span title="{escape(_figures(word))}"{style}>{shown}</span>' if word else shown)
    return f'<h2>{escape(summary(attribution))}</h2>\n<p class="prompt" dir="auto">{"".join(parts)}</p>'


def _figures(word: WordScore) -> str:
    figures = f"raw {word.raw:+.4g}, frequency {word.frequency:.3g}, adjusted {word.adjusted:+.4g}"
    return figures + (f", no feature: {word.excluded}" if word.excluded else "")


def _shaded(
    prompt: str, attribution: Attribution, score: Score
) -> Iterator[tuple[str, WordScore | None, float]]:
    """The prompt in pieces: the text, its word or None, and its score as a share of the largest score."""
    values = [
        word.raw if score == "raw" else 0.0 if word.excluded else word.adjusted for word in attribution.words
    ]
    largest = max(map(abs, values), default=0.0)
    after = 0
    for word, value in zip(attribution.words, values, strict=True):
        yield prompt[after : word.start], None, 0.0
        yield prompt[word.start : word.end], word, value / largest if largest else 0.0
        after = word.end
    yield prompt[after:], None, 0.0


def _mix(ground: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    """The ground colour mixed with red (share up to 1) or blue (share down to -1)."""
    colour = _RED if share > 0 else _BLUE
    red, green, blue = (
        round(dark + (full - dark) * abs(share)) for dark, full in zip(ground, colour, strict=True)
    )
    return red, green, blue
