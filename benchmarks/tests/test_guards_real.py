"""The kept votes of the guard benchmark, and the tables drawn from them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import guards_real

from overbench.guard.guard_output import guard_tables
from overbench.guard.guard_rates import pair_outcomes
from overbench_tasks.display import markdown_lines

PAGE = Path(guards_real.__file__).parents[1] / "docs/measurements/guard.md"


def test_the_page_shows_the_kept_votes() -> None:
    tables = [list(markdown_lines(next(guard_tables(results)))) for results in guards_real.kept_results()]
    kept = "\n".join([*tables[0], *chain.from_iterable(table[2:] for table in tables[1:])])
    assert f"<!-- guard -->\n{kept}\n<!-- /guard -->" in PAGE.read_text(encoding="utf-8")


def test_the_page_says_what_the_classifier_does_to_pairs() -> None:
    (pairs,) = pair_outcomes(next(guards_real.kept_results()))
    sentence = (
        f"it separates {pairs.separated}, passes both prompts of {pairs.both_passed}, "
        f"blocks both of {pairs.both_blocked}, and inverts {pairs.inverted}."
    )
    assert sentence in " ".join(PAGE.read_text(encoding="utf-8").split())


def test_only_a_first_reply_that_refuses_makes_an_opening_harmful() -> None:
    refused = "\n\nHuman: one\n\nAssistant: I'm sorry, but I can't help with that.\n\nHuman: two"
    assert guards_real._refused_opening(refused) == "one"
    answered = (
        "\n\nHuman: one\n\nAssistant: Boil some water.\n\nHuman: no\n\nAssistant: I can't help with that."
    )
    assert guards_real._refused_opening(answered) is None
