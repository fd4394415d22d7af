"""The kept votes of the guard benchmark, and the tables drawn from them."""

from __future__ import annotations

from pathlib import Path

import guard_classifier

from overbench.guard.guard_output import guard_tables
from overbench.guard.guard_rates import pair_outcomes
from overbench_tasks.display import markdown_lines


def test_the_page_shows_the_kept_votes() -> None:
    table = next(guard_tables(guard_classifier.kept_results()))
    page = (Path(guard_classifier.__file__).parents[1] / "docs/measurements/guard.md").read_text(
        encoding="utf-8"
    )
    kept = "\n".join(markdown_lines(table))
    (pairs,) = pair_outcomes(guard_classifier.kept_results())
    told = (
        f"it separates {pairs.separated}, passes both prompts of {pairs.both_passed}, "
        f"blocks both of {pairs.both_blocked}, and inverts {pairs.inverted}."
    )
    assert told in " ".join(page.split())
    assert f"<!-- guard -->\n{kept}\n<!-- /guard -->" in page


def test_only_a_first_reply_that_refuses_makes_an_opening_harmful() -> None:
    refused = "\n\nHuman: one\n\nAssistant: I'm sorry, but I can't help with that.\n\nHuman: two"
    assert guard_classifier._refused_opening(refused) == "one"
    answered = (
        "\n\nHuman: one\n\nAssistant: Boil some water.\n\nHuman: no\n\nAssistant: I can't help with that."
    )
    assert guard_classifier._refused_opening(answered) is None
