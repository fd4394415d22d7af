"""What a release holds: prompts by field, form and category, its pairs, and who refuses what.

    python benchmarks/release_counts.py [RELEASE]                       # the bundled one by default
    python benchmarks/release_counts.py [RELEASE] --unlike prompts.csv  # XSTest's file, for its sides
    python benchmarks/release_counts.py --weakest                       # the appendix of the card

A pair's sides should look alike to whoever only sees words or lengths. That is measured as the AUROC of a
logistic regression on TF-IDF of words and pairs of words, and of the length, cross-validated so that both
halves of a pair are always in one fold.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from neighbours_real import read as read_neighbours
from numpy.typing import NDArray

from overbench.diversity.word_measures import openings, words_of
from overbench.release.joined_outcomes import outcomes_of_release
from overbench.report.stats.correlations import rank_correlation
from overbench.report.stats.matrix import MISSING, ResponseMatrix, release_matrix, unsafe_matrices
from overbench.report.stats.trade_off import pair_matrix, trade_offs
from overbench_tasks.defences.defences import orders_refusal
from overbench_tasks.metrics.balance import (
    SidedValue,
    balanced_accuracy,
    balanced_accuracy_high,
    balanced_accuracy_low,
)
from overbench_tasks.outcomes.release_files import Release, read_release
from overbench_tasks.prompts.sources import BUNDLED_RELEASES
from overbench_tasks.records import PromptLabel
from overbench_tasks.tables import read_table
from overbench_tasks.text import escaped, number_of

FOLDS, REPEATS = 5, 10
Integers = NDArray[np.int64]
GRADES = Path(__file__).parent / "data" / "release_v2" / "pair_grades.csv"


def pairs_of(release: Release) -> dict[str, tuple[str, str]]:
    """Of each pair, by its id: the safe prompt and its counterpart."""
    if (counterparts := release.unsafe_prompts()) is None:
        return {}
    unsafe = {row["pair_id"]: row["prompt"] for row in counterparts.to_pylist() if row.get("pair_id")}
    rows = release.prompts().to_pylist()
    return {row["pair_id"]: (row["prompt"], unsafe[row["pair_id"]]) for row in rows if row.get("pair_id")}


def side_scores(
    texts: Sequence[str], side: Integers, groups: Integers, repeats: int = REPEATS
) -> NDArray[np.float64]:
    """(repeats, texts) what a classifier of words gives each text as the chance of side 1.

    Args:
        side: (texts,) 0 or 1.
        groups: (texts,) from 0 on; those of one group are in one fold.
        repeats: how many cross-validations, each with other folds.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model, folds = make_pipeline(words, LogisticRegression(max_iter=2000)), GroupKFold(FOLDS)
    scores_of_repeats = []
    for repeat in range(repeats):
        shuffled = np.random.default_rng(repeat).permutation(max(groups) + 1)[groups]
        scores = cross_val_predict(model, texts, side, groups=shuffled, cv=folds, method="predict_proba")
        scores_of_repeats.append(scores[:, 1])
    return np.array(scores_of_repeats)


def side_auroc(
    safe: Sequence[str], unsafe: Sequence[str], groups: Sequence[int], repeats: int = REPEATS
) -> dict[str, float]:
    """How well words, and length alone, tell the sides apart: the AUROC, of words its mean over repeats.

    Args:
        groups: of the safe prompts and then the unsafe ones, see :func:`side_scores`.
    """
    from sklearn.metrics import roc_auc_score

    texts, side = [*safe, *unsafe], np.repeat([0, 1], [len(safe), len(unsafe)])
    aurocs = [roc_auc_score(side, scores) for scores in side_scores(texts, side, np.array(groups), repeats)]
    lengths = roc_auc_score(side, [len(text) for text in texts])
    return {"words": float(np.mean(aurocs)), "length": float(lengths)}


def weakest_table(release: Release) -> Iterator[str]:
    """The thirty pairs that their readers called the weakest, from the weakest on."""
    graded = [row for _, row in read_table(GRADES) if row["weakest"]]
    both = pairs_of(release)
    yield "| harmless | its twin | what is weak |"
    yield "| --- | --- | --- |"
    for row in sorted(graded, key=lambda row: int(row["weakest"])):
        yield f"| {' | '.join(escaped(cell) for cell in (*both[row['pair_id']], row['note']))} |"


def shares(title: str, values: Iterable[str | None]) -> Iterator[str]:
    """Lines of how often each value is there."""
    counts = Counter(values)
    yield f"{title}:"
    for value, n in counts.most_common():
        yield f"  {value}: {n:,} ({100 * n / counts.total():.1f} %)"


def predicted_shares(release: Release) -> dict[str, float]:
    """Source file -> mean share of real models that are expected to refuse its prompts, in %; "" is all."""
    shares_of_sources: dict[str, list[float]] = defaultdict(list)
    for row in release.prompts().to_pylist():
        if row.get("predicted_refusal_share") is not None:
            for source in ("", *row["sources"]):
                shares_of_sources[source].append(100 * row["predicted_refusal_share"])
    return {source: float(np.mean(shares)) for source, shares in shares_of_sources.items()}


def sides_table(release: Release, xstest: Path | None) -> Iterator[str]:
    """The AUROCs of both sides, beside those of XSTest's."""
    pairs = pairs_of(release).values()
    sides = {
        f"this release, {len(pairs):,} pairs": (
            [prompt for prompt, _ in pairs],
            [other for _, other in pairs],
        )
    }
    groups = {name: [*range(len(pairs)), *range(len(pairs))] for name in sides}
    if xstest is not None:
        rows = [row for _, row in read_table(xstest)]
        unsafe = [row["type"].startswith("contrast") for row in rows]
        both = [
            [row["prompt"] for row, row_side in zip(rows, unsafe, strict=True) if row_side == side]
            for side in (False, True)
        ]
        sides["XSTest"] = both[0], both[1]
        groups["XSTest"] = list(range(len(rows)))
    yield "| sides of | AUROC, words and pairs of words | AUROC, length |"
    yield "| --- | ---: | ---: |"
    for name, (safe, counterparts) in sides.items():
        auroc = side_auroc(safe, counterparts, groups[name])
        yield f"| {name} | {auroc['words']:.2f} | {auroc['length']:.2f} |"


def contents_tables(release: Release) -> Iterator[str]:
    """Prompts, pairs and hard prompts by field and by form, and how long the prompts are in words."""
    rows = release.prompts().to_pylist()
    hard = {row["id"] for row in release.prompts(hard=True).to_pylist()}
    for column in ("field", "form"):
        yield f"| {column} | prompts | of these with a twin | hard |"
        yield "| --- | ---: | ---: | ---: |"
        for value, n in Counter(row[column] for row in rows).most_common():
            own = [row for row in rows if row[column] == value]
            paired, refused = sum(bool(row["pair_id"]) for row in own), sum(row["id"] in hard for row in own)
            yield f"| {value or 'none: those of 1.1'} | {n:,} | {paired:,} | {refused:,} |"
        yield ""
    lengths = [len(row["prompt"].split()) for row in rows]
    median, long = np.percentile(lengths, (50, 95))
    yield f"Words: median {median:.0f}, 95th percentile {long:.0f}, longest {max(lengths)}."


def choice_table(release: Release) -> Iterator[str]:
    """What the refusals of a release owe to system instructions, and its words to attribution."""
    rows = release.prompts().to_pylist()
    hard = {row["id"] for row in release.prompts(hard=True, columns=("id",)).to_pylist()}
    least, targets = int(release.facts["settings"]["min_rejections"]), release.targets()
    bare = {target.target: target.checkpoint for target in targets if not target.system_instruction}
    strict = {target.target for target in targets if orders_refusal(target.system_instruction)}
    cautious = {target.target for target in targets if target.target.endswith(", cautious")}
    refusing = {row["id"]: set(row["refused_by"]) for row in rows}
    by_bare = [len({bare[name] for name in names if name in bare}) for names in refusing.values()]
    counts = {
        f"of {len(rows):,} prompts": "",
        "refused by no configuration": sum(not names for names in refusing.values()),
        "refused, but only under the cautious or the strict instruction": sum(
            bool(names) and names <= cautious | strict for names in refusing.values()
        ),
        "refused, but only under some system instruction": sum(
            bool(names) and names.isdisjoint(bare) for names in refusing.values()
        ),
        "with words that were never attributed: their writer named them": sum(
            not row["attributed_features"] for row in rows
        ),
        f"of {len(hard):,} hard prompts": "",
        f'refused by {least} configurations without those of "strict policy"': sum(
            len(refusing[prompt] - strict) >= least for prompt in hard
        ),
        f"of {len(rows):,} prompts, by the rule of the next release": "",
        **{
            f"refused by at least {number_of(number, 'checkpoint')} without a system instruction": sum(
                count >= number for count in by_bare
            )
            for number in range(2, len({*bare.values()}) + 1)
        },
    }
    yield "| what | prompts |"
    yield "| --- | ---: |"
    for what, count in counts.items():
        yield f"| **{what}** | |" if count == "" else f"| {what} | {count:,} |"


def changes(release: Release) -> dict[str, float]:
    """How small the change is that turns a prompt into its counterpart.

    Returns:
        of the words that either half has, the share that both have (Jaccard, in %): its ``median``, and the
        share of pairs (in %) where it is ``below`` 30; ``longest``: the largest difference in words.
    """
    both = [tuple(map(words_of, pair)) for pair in pairs_of(release).values()]
    shared = [100 * len({*first} & {*other}) / len({*first} | {*other}) for first, other in both]
    lengths = [abs(len(first.split()) - len(other.split())) for first, other in pairs_of(release).values()]
    below = 100 * float(np.mean(np.array(shared) < 30))
    return {"median": float(np.median(shared)), "below": below, "longest": max(lengths)}


def pairs_table(release: Release) -> Iterator[str]:
    """What each configuration does with both halves of the pairs; the best at telling them apart first."""
    pairs = [row for row in release.prompts().to_pylist() if row["pair_id"]]
    counterparts = release.unsafe_prompts()
    outcomes = outcomes_of_release(release)
    unsafe = outcomes.unsafe and unsafe_matrices(outcomes.unsafe)
    assert unsafe is not None and counterparts is not None
    safe = release_matrix(release).with_ids(row["id"] for row in pairs)
    results = trade_offs(safe, *unsafe, pair_matrix(outcomes.safe, outcomes.unsafe))
    sides = [(safe, "safe", pairs), (unsafe[0], "unsafe", counterparts.to_pylist())]
    yield (
        "| configuration | refused, of the harmless halves, % | of the counterparts, % | "
        "`balanced_accuracy`, % | `pair_accuracy`, % |"
    )
    yield "| --- | ---: | ---: | ---: | ---: |"
    for result in sorted(
        results, key=lambda result: -result.pair_accuracy.value if result.pair_accuracy else 0
    ):
        values = [value for side in sides for value in _sided(result.target, *side)]
        balanced = [
            measure(values) for measure in (balanced_accuracy, balanced_accuracy_low, balanced_accuracy_high)
        ]
        rates = [
            (rate.value, rate.low, rate.high)
            for rate in (result.balance.over_refusal, result.balance.correct_refusal, result.pair_accuracy)
            if rate
        ]
        shown = (
            f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            for value, low, high in (*rates[:2], balanced, *rates[2:])
        )
        yield f"| {result.target} | {' | '.join(shown)} |"


def _sided(
    target: str, matrix: ResponseMatrix, side: PromptLabel, rows: Iterable[Mapping[str, Any]]
) -> Iterator[SidedValue]:
    """What the target did with one side of the pairs, as ``overbench_pairs`` counts it."""
    pair_ids = {row["id"]: row["pair_id"] for row in rows}
    values = matrix.values[:, matrix.targets.index(target)]
    for prompt_id, value in zip(matrix.prompt_ids, values, strict=True):
        yield pair_ids[prompt_id], side, None if value == MISSING else float(value)


def ranking_table(release: Release) -> Iterator[str]:
    """Whether configurations rank alike on this release and on neighbours that the same ones answered."""
    whole = release_matrix(release)
    hard = whole.with_ids(row["id"] for row in release.prompts(hard=True).to_pylist())
    yield "| configurations rank on | as on | configurations | Spearman's rho | Kendall's tau-b |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for other in read_neighbours().sets:
        if other.name not in ("xstest", "or_bench_hard"):
            continue
        for name, ours in {"`overbench`": whole, "`overbench_hard`": hard}.items():
            common = [target for target in other.matrix.targets if target in ours.targets]
            first, second = (
                matrix.values[:, [matrix.targets.index(target) for target in common]]
                for matrix in (ours, other.matrix)
            )
            if (correlation := rank_correlation(first, second)) is None:
                continue
            both = [
                f"{coefficient.value:.2f} ({coefficient.low:.2f} to {coefficient.high:.2f})"
                for coefficient in (correlation.rho, correlation.tau)
            ]
            yield f"| {name} | {other.name} | {correlation.n} | {' | '.join(both)} |"


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", type=Path, nargs="?", default=BUNDLED_RELEASES["overbench-2.0"])
    parser.add_argument("--unlike", type=Path, metavar="FILE")
    parser.add_argument("--weakest", action="store_true")
    arguments = parser.parse_args()
    release = read_release(arguments.release)
    if arguments.weakest:
        return print("\n".join(weakest_table(release)))
    for name, rows in (("overbench", release.prompts()), ("overbench_hard", release.prompts(hard=True))):
        prompts = rows.to_pylist()
        print(f"{name}: {len(prompts):,} prompts")
        print("\n".join(shares("category", (row.get("category") for row in prompts))))
        for opening in openings([words_of(row["prompt"]) for row in prompts]):
            print(f"begin with {opening.words!r}: {100 * opening.share:.1f} %")
        difficulty = [row["difficulty"] for row in prompts if row.get("difficulty") is not None]
        print(f"difficulty: mean {np.mean(difficulty):.3f}, refused by none {difficulty.count(0):,}")
    for source, share in predicted_shares(release).items():
        print(f"predicted share, {source or 'all'}: {share:.1f} %")
    print(
        "change from a prompt to its counterpart:",
        *(f"{name} {change:.0f}" for name, change in changes(release).items()),
    )
    tables = (
        choice_table(release),
        contents_tables(release),
        sides_table(release, arguments.unlike),
        pairs_table(release),
        ranking_table(release),
    )
    print("\n\n".join("\n".join(table) for table in tables))


if __name__ == "__main__":
    main()
