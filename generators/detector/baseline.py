"""The baseline that a detector has to beat: TF-IDF of words, with logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from generators.detector.detector_settings import Example
from generators.detector.scores import Floats, auroc, labels_of

STRENGTHS: Final = (0.1, 1.0, 10.0, 100.0)
"""Inverse regularisation strengths that are tried."""


def baseline_log_odds(
    train: Sequence[Example], weights: Sequence[float], validation: Sequence[Example], test: Sequence[Example]
) -> tuple[Floats, Floats]:
    """Log-odds of refusal, (validation,) and (test,), of scikit-learn's TF-IDF and logistic regression.

    Single words and pairs, sublinear term frequency; it sees what the detector sees: the same
    training prompts with the same weights, and its regularisation is chosen on validation by AUROC,
    as the detector's epoch is. Deterministic.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    # Single letters and signs are words, too: no set of prompts leaves it without one.
    pattern = r"\w+|[^\w\s]+"
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=pattern)
    features = words.fit_transform([example.prompt for example in train])
    tuning, testing = (words.transform([e.prompt for e in split]) for split in (validation, test))
    models = [
        LogisticRegression(C=strength, max_iter=1000).fit(features, labels_of(train), sample_weight=weights)
        for strength in STRENGTHS
    ]
    best = max(models, key=lambda model: auroc(labels_of(validation), model.decision_function(tuning)))
    return best.decision_function(tuning), best.decision_function(testing)
