"""Which harmless prompts do real models refuse? A predictor from the text, learnt from published outcomes.

    python benchmarks/boundary_predictor.py                    # the tables, from what is committed
    python benchmarks/boundary_predictor.py --fit              # anew, from the shared data
    python benchmarks/boundary_predictor.py --predict PROMPTS.jsonl

``--embeddings FOLDER`` keeps embeddings from call to call.

Learnt is the share of models that refuse a prompt: of eleven models XSTest's safe ones, of eight
OR-Bench-Hard (K-OverRefusal), of seventeen RefusalBench's benign and borderline biology. Empty replies
count for nothing; for the same reason GPT-5.5, Kimi and Grok are left out of the biology, where nobody
knows why most of their replies have no text. A deflection is no refusal, as in ``osr``.

The predictor itself is ``boundary_model.py``. ``--fit`` writes its weights,
``data/boundary_predictor.json``, and ``data/boundary_predictions.csv.gz``: for each prompt, by
id, the share and what is predicted for it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from boundary_model import STRENGTH, Floats, fitted, predict, save, vectors

from overbench.report.stats.correlations import rank_correlation
from overbench_tasks.outcomes.release_files import read_release
from overbench_tasks.prompts import prompt_id
from overbench_tasks.prompts.prompt_rows import read_prompts
from overbench_tasks.prompts.sources import BUNDLED_RELEASES, source_file
from overbench_tasks.tables import read_table, whole_file

DATA = Path(__file__).resolve().parent / "data"
PREDICTIONS = DATA / "boundary_predictions.csv.gz"
ENCODER, WORDS, LENGTH = "all-mpnet-base-v2", "TF-IDF", "length"
KINDS = (ENCODER, "minilm-l6-v2", WORDS, LENGTH)
XSTEST, OR_BENCH, BIOLOGY, RELEASE = (
    "XSTest safe",
    "OR-Bench-Hard",
    "biology, benign and borderline",
    "release 1.1",
)
JUDGED = (XSTEST, OR_BENCH, BIOLOGY)
UNEXPLAINED = ("gpt-5.5", "kimi", "grok")
FOLDS = 10
TOP = 0.1
"""The share of prompts, the likeliest to be refused, of which the tables tell how many are."""


@dataclass(frozen=True, slots=True)
class Known:
    """A prompt, the share of the models with a scored reply that refused it, and how many these were."""

    set: str
    prompt: str
    share: float
    models: int


def read(shared: Path) -> list[Known]:
    """Every harmless prompt of the three sets that has an English text."""
    counts: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0])
    for name, file in ((XSTEST, "xstest_by_model"), (OR_BENCH, "or_bench_hard_by_model")):
        for _, row in read_table(shared / "outcomes" / f"{file}.jsonl.gz"):
            korean = row.get("type", "").endswith("k_idioms") and row["prompt"] == row["asked"]
            if row["outcome"] != "empty" and row.get("prompt_label") != "unsafe" and not korean:
                count = counts[name, row["prompt"]]
                count[0] += row["outcome"] == "refusal"
                count[1] += 1
    for _, row in read_table(shared / "outcomes" / "refusalbench_by_model.jsonl.gz"):
        if row["tier"] in ("benign", "borderline") and not any(name in row["model"] for name in UNEXPLAINED):
            outcomes = row["outcomes"] if isinstance(row["outcomes"], dict) else json.loads(row["outcomes"])
            count = counts[BIOLOGY, row["prompt"]]
            count[0] += sum(n for how, n in outcomes.items() if how.endswith("_refusal")) / sum(
                outcomes.values()
            )
            count[1] += 1
    return [
        Known(name, prompt, refused / n, int(n)) for (name, prompt), (refused, n) in sorted(counts.items())
    ]


def predicted(
    kind: str, outcomes: Sequence[Known], learnt: Floats, tested: Floats, encoded: Mapping[str, Floats]
) -> Floats:
    """What a predictor of this kind that learnt from some rows says of others, by their places."""
    prompts = [outcome.prompt for outcome in outcomes]
    shares, models = (
        np.array([getattr(outcome, name) for outcome in outcomes], float) for name in ("share", "models")
    )
    train, test = ([prompts[index] for index in places] for places in (learnt, tested))
    if kind == WORDS:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import Ridge

        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]+")
        weights = models[learnt] / models[learnt].mean()
        line = Ridge(STRENGTH, solver="sparse_cg").fit(words.fit_transform(train), shares[learnt], weights)
        return np.asarray(line.predict(words.transform(test)))
    dimensions = encoded.get(kind, np.zeros((len(outcomes), 0)))
    return fitted(train, dimensions[learnt], shares[learnt], models[learnt]).shares(test, dimensions[tested])


def cross_validated(outcomes: Sequence[Known], encoded: Mapping[str, Floats]) -> Iterator[dict[str, Any]]:
    """For each prompt of :data:`JUDGED` what predictors of each kind say that did not learn from it.

    ``own``: ten folds of its set alone; ``more``: the same folds and all other prompts; ``others``: the other
    sets alone.
    """
    from sklearn.model_selection import KFold
    from tqdm import tqdm

    sets = np.array([outcome.set for outcome in outcomes])
    for name in JUDGED:
        [own], [rest] = np.nonzero(sets == name), np.nonzero(sets != name)
        rows = {index: {"set": name, "id": prompt_id(outcomes[index].prompt)} for index in own}
        for index in own:
            rows[index] |= {"share": outcomes[index].share, "models": outcomes[index].models}
        for kind in tqdm(KINDS, desc=name, disable=None):
            shares_by_way = {way: np.zeros(len(outcomes)) for way in ("own", "more", "others")}
            shares_by_way["others"][own] = predicted(kind, outcomes, rest, own, encoded)
            for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(own):
                shares_by_way["own"][own[test]] = predicted(kind, outcomes, own[train], own[test], encoded)
                both = np.concatenate([own[train], rest])
                shares_by_way["more"][own[test]] = predicted(kind, outcomes, both, own[test], encoded)
            for index in own:
                rows[index] |= {f"{kind} {way}": values[index] for way, values in shares_by_way.items()}
        yield from rows.values()


def fit(shared: Path, folder: Path | None) -> None:
    """Write the weights and the predictions."""
    outcomes = read(shared)
    prompts = [outcome.prompt for outcome in outcomes]
    encoded = {kind: vectors(prompts, kind, folder) for kind in KINDS[:2]}
    rows = list(cross_validated(outcomes, encoded))
    shares, models = (
        np.array([getattr(outcome, name) for outcome in outcomes], float) for name in ("share", "models")
    )
    line = fitted(prompts, encoded[ENCODER], shares, models)
    save(line, ENCODER)
    ours = read_prompts(source_file("overbench-1.1"))
    predicted_shares = predict([row["prompt"] for row in ours], folder)
    rows += [
        {"set": RELEASE, "id": row["id"], f"{ENCODER} more": share}
        for row, share in zip(ours, predicted_shares, strict=True)
    ]
    columns = [
        "set",
        "id",
        "share",
        "models",
        *(f"{kind} {way}" for kind in KINDS for way in ("own", "more", "others")),
    ]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: f"{v:.4f}" if isinstance(v, float) else v for key, v in row.items()} for row in rows
    )
    PREDICTIONS.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read_predictions() -> dict[str, list[dict[str, Any]]]:
    """The committed predictions by set, numbers as numbers, and those that the bundled release has."""
    rows_of_sets: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, row in read_table(PREDICTIONS):
        kept = {key: value if key in ("set", "id") else float(value) for key, value in row.items() if value}
        rows_of_sets[kept["set"]].append(kept)
    ours = read_release(BUNDLED_RELEASES["overbench-2.0"])
    shares = ours.prompts()["predicted_refusal_share"].to_pylist()
    return rows_of_sets | {
        f"release {ours.facts['version']}": [{f"{ENCODER} more": share} for share in shares]
    }


def quality_table(rows_of_sets: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Spearman's rho of predicted and observed share, with 95 % bootstrap intervals over prompts."""
    yield "| set | learnt from | " + " | ".join(KINDS) + " | its likeliest tenth, refused | all |"
    yield "| --- | --- |" + " --- |" * len(KINDS) + " ---: | ---: |"
    ways = {
        "own": "the set itself, ten folds",
        "more": "these folds and the other sets",
        "others": "the other sets",
    }
    for name in JUDGED:
        share = np.array([row["share"] for row in rows_of_sets[name]])
        for way, heading in ways.items():
            cells = []
            for kind in KINDS:
                scores = np.array([row[f"{kind} {way}"] for row in rows_of_sets[name]])
                coefficient = rank_correlation(scores, share, draws=200)
                rho = coefficient.rho if coefficient else None
                cells.append(f"{rho:.2f}" if rho else "–")
                if kind == ENCODER:
                    top = share[np.argsort(-scores, kind="stable")[: round(TOP * len(scores))]].mean()
            yield f"| {name} | {heading} | {' | '.join(cells)} | {top:.1%} | {share.mean():.1%} |"


def shares_table(rows_of_sets: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """The mean predicted share of each set, cross-validated where it was learnt from, and the true one.

    A set that was learnt from has its level from itself; beside it stands what the other sets alone say.
    """
    yield (
        "| set | prompts | predicted share | of its likeliest tenth | by the other sets alone | "
        "observed share |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, rows in rows_of_sets.items():
        scores = np.sort([row[f"{ENCODER} more"] for row in rows])[::-1]
        learnt = "share" in rows[0]
        others, seen = (
            f"{np.mean([row[key] for row in rows]):.1%}" if learnt else "–"
            for key in (f"{ENCODER} others", "share")
        )
        top = scores[: round(TOP * len(scores))].mean()
        yield f"| {name} | {len(rows):,} | {scores.mean():.1%} | {top:.1%} | {others} | {seen} |"


def agreement(set_name: str, splits: int = 40) -> float:
    """Spearman's rho of the shares of one half of the models and of the other, mean over random halves.

    From the outcomes of ``real_outcomes.py``: what a predictor of single models' whims can't reach.
    """
    from scipy.stats import spearmanr

    refusals: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for _, row in read_table(DATA / "outcomes" / f"{set_name}.csv.gz"):
        if row["prompt_label"] == "safe" and row["outcome"] != "empty":
            refusals[row["prompt"]][row["model"]] = row["outcome"] == "refusal"
    models = sorted({model for of_prompt in refusals.values() for model in of_prompt})
    draw, coefficients = np.random.default_rng(0), []
    for _ in range(splits):
        half = set(draw.permutation(models)[: len(models) // 2])
        sides = [
            [[v for m, v in of_prompt.items() if (m in half) is side] for side in (True, False)]
            for of_prompt in refusals.values()
        ]
        means = [(np.mean(first), np.mean(second)) for first, second in sides if first and second]
        coefficients.append(spearmanr(*zip(*means, strict=True)).statistic)
    return float(np.mean(coefficients))


def main() -> None:
    """Print the tables; fit or predict first where that is asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fit", action="store_true")
    parser.add_argument(
        "--predict", type=Path, metavar="FILE", help="a prompt file; writes FILE.predicted.jsonl"
    )
    parser.add_argument("--embeddings", type=Path, help="a folder that keeps embeddings from call to call")
    arguments = parser.parse_args()
    if arguments.fit:
        from labelled_sets import SHARED_DATA

        fit(SHARED_DATA, arguments.embeddings)
    if arguments.predict:
        rows = [row for _, row in read_table(arguments.predict)]
        shares = predict([row["prompt"] for row in rows], arguments.embeddings)
        with whole_file(arguments.predict.with_suffix(".predicted.jsonl")) as file:
            for row, share in zip(rows, shares, strict=True):
                file.write(
                    json.dumps({**row, "predicted_refusal_share": round(share, 4)}, ensure_ascii=False) + "\n"
                )
        print(f"{len(rows):,} prompts, mean predicted share {np.mean(shares):.1%}")
        return
    rows_of_sets = read_predictions()
    print("\n".join([*quality_table(rows_of_sets), "", *shares_table(rows_of_sets)]))
    print(
        "Two halves of the models:",
        *(f"{name} {agreement(name):.2f}" for name in ("xstest", "or_bench_hard")),
    )


if __name__ == "__main__":
    main()
