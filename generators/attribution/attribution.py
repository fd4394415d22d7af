"""Which words of a prompt make the detector expect a refusal (step 2 of Pu et al. 2025, arXiv 2510.19005).

Integrated Gradients of the refusal log-odds per token, summed to words by character span, then divided
by how common the word is: AdjIG_i = IG_i / freq(x_i)^beta.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generators.attribution.attribution_settings import AttributionSettings, Output
from generators.attribution.integrated_gradients import integrate
from generators.attribution.token_scores import TokenScores
from generators.words import Exclusion, Span, exclusions, frequency, pool_form, spans
from overbench_tasks.errors import OverbenchError
from overbench_tasks.text import encodable


@dataclass(frozen=True, slots=True)
class WordScore:
    """One word of a prompt, or one run of marks between words.

    Attributes:
        word: ``prompt[start:end]``, surrogate code points replaced by ``?``.
        start, end: in code points.
        raw: its share of the output (the sum over its tokens); 0 where the detector does not read it.
        frequency: its share of all English words, in [0, 1]; 0 if unseen, and for marks.
        adjusted: raw / max(frequency, floor)^beta, with the settings it was made with.
        excluded: why it cannot be a feature (:data:`~generators.words.Exclusion`), or "".
    """

    word: str
    start: int
    end: int
    raw: float
    frequency: float
    adjusted: float
    excluded: Exclusion = ""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What the words of one prompt add to the detector's output F, its log-odds of refusal.

    ``sum(w.raw for w in words) + rest = F(prompt) - F(baseline) + delta``

    Attributes:
        prompt_id: as given.
        log_odds, baseline_log_odds: of the prompt, and of its baseline.
        delta: what the approximation of the integral is off by, in units of F.
        steps: points of the approximation.
        converged: whether ``delta`` is within tolerance.
        truncated: whether the detector reads only part of the prompt; words past the cut score 0.
        words: in the order of the text, marks included.
        rest: the share of tokens that stand for no visible character. Special tokens have none.
        output: what F is; ``probability`` is the sigmoid of the log-odds.
    """

    prompt_id: str
    log_odds: float
    baseline_log_odds: float
    delta: float
    steps: int
    converged: bool
    truncated: bool
    words: tuple[WordScore, ...]
    rest: float = 0.0
    output: Output = "log_odds"


def attribute(
    model: Any, tokenizer: Any, prompts: Sequence[tuple[str, str]], settings: AttributionSettings
) -> list[Attribution]:
    """Attribute the refusal log-odds of many prompts to their words.

    Args:
        model, tokenizer: the detector; see :func:`~generators.attribution.integrated_gradients.integrate`.
        prompts: (id, text) of each; any text, the empty one too.
        settings: how.

    Returns:
        One per prompt, in the order of ``prompts``.

    Raises:
        OverbenchError: the detector cannot be attributed; see there.
    """
    results = integrate(model, tokenizer, [encodable(text) for _, text in prompts], settings)
    return [
        by_word(prompt_id, text, result, settings)
        for (prompt_id, text), result in zip(prompts, results, strict=True)
    ]


def by_word(prompt_id: str, prompt: str, result: TokenScores, settings: AttributionSettings) -> Attribution:
    """Sum token scores to words: each token counts for the word or mark it shares most characters with."""
    text = encodable(prompt)
    word_spans = spans(text)
    raw, rest = _by_span(word_spans, result.offsets, result.scores)
    words = []
    for span, score, excluded in zip(word_spans, raw, exclusions(text, word_spans), strict=True):
        word = text[span.start : span.end]
        common = frequency(word) if span.is_word else 0.0
        adjusted = _adjusted(score, common, settings)
        words.append(WordScore(word, span.start, span.end, score, common, adjusted, excluded))
    return Attribution(
        prompt_id,
        result.log_odds,
        result.baseline_log_odds,
        result.delta,
        result.steps,
        result.converged,
        result.truncated,
        tuple(words),
        rest,
        settings.output,
    )


def features(attribution: Attribution, settings: AttributionSettings) -> list[str]:
    """The prompt's features: its top-k distinct words by adjusted score, best first, in pool form.

    Adjusted scores are made anew from ``raw`` and ``frequency``, so that one attribution serves any
    ``beta`` and floor (``beta=0``: raw Integrated Gradients). Only words count that are not excluded and
    whose raw score is above 0 and at least ``min_share`` of the highest. A word that stands more than once
    counts with its best place, not with the sum: a generated prompt uses it once, and repetition alone
    makes no trigger. Ties: the earlier word first.
    """
    words = [word for word in _candidates(attribution, settings) if word.raw > 0]
    lowest = settings.min_share * max((word.raw for word in words), default=0.0)
    words = [word for word in words if word.raw >= lowest]
    words.sort(key=lambda word: -_adjusted(word.raw, word.frequency, settings))
    return list(dict.fromkeys(pool_form(word.word, settings.form) for word in words))[: settings.top_k]


def content_words(attribution: Attribution, settings: AttributionSettings) -> list[str]:
    """Every distinct word that could be a feature, whatever its score, in text order, in pool form.

    What attributed features are compared with: words drawn at random from the same prompt.
    """
    words = _candidates(attribution, settings)
    return list(dict.fromkeys(pool_form(word.word, settings.form) for word in words))


def _candidates(attribution: Attribution, settings: AttributionSettings) -> list[WordScore]:
    """The words that could be features."""
    kept = ("",) if settings.exclude_words else ("", "stop_word", "number", "name", "not_a_word")
    return [word for word in attribution.words if word.excluded in kept]


def from_json(row: Mapping[str, Any]) -> Attribution:
    """The attribution of which ``dataclasses.asdict`` has made this row.

    Raises:
        OverbenchError: the row is none.
    """
    try:
        words = tuple(WordScore(**word) for word in row["words"])
        return Attribution(**{**row, "words": words})
    except (KeyError, TypeError) as error:
        raise OverbenchError(
            f"Expected an attribution as written by `overbench attribute`, but a field is missing or unknown "
            f"({error}). Attribute again."
        ) from error


def _adjusted(raw: float, common: float, settings: AttributionSettings) -> float:
    return float(raw / max(common, settings.frequency_floor) ** settings.beta)


def _by_span(
    word_spans: Sequence[Span], offsets: Sequence[tuple[int, int]], scores: Sequence[float]
) -> tuple[list[float], float]:
    """The sum of token scores per span, and over the tokens that touch none."""
    sums, rest = [0.0] * len(word_spans), 0.0
    starts = [span.start for span in word_spans]
    for (start, end), score in zip(offsets, scores, strict=True):
        first = max(bisect_right(starts, start) - 1, 0)
        shared = [
            (min(end, word_spans[i].end) - max(start, word_spans[i].start), -i)
            for i in range(first, bisect_left(starts, end))
        ]
        most, place = max(shared, default=(0, 0))
        if most > 0:
            sums[-place] += score
        else:
            rest += score
    return sums, rest
