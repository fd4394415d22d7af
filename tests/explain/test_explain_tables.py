"""Over many explained prompts: the word of an attribution, and the benchmark's tables, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks import explain_real
from explain_fakes import RuledTarget

from generators.attribution.attribution import Attribution, WordScore
from generators.explain.text_parts import words_of
from overbench_tasks.tables import read_table


def test_the_word_that_an_attribution_names_is_found_by_its_place() -> None:
    prompt = "Kill the kill switch?"
    words = (
        WordScore("Kill", 0, 4, 1.0, 1e-4, 1e4),
        WordScore("the", 5, 8, 9.0, 5e-2, 180.0, "stop_word"),
        WordScore("kill", 9, 13, 2.0, 1e-4, 2e4),
        WordScore("switch", 14, 20, 3.0, 1e-2, 300.0),
    )
    made = Attribution("x", 1.0, 0.0, 0.0, 11, True, False, words)
    assert explain_real.top_word(made, words_of(prompt)) == 0  # "Kill", of which the third is a place
    assert explain_real.top_word(made, words_of(prompt), adjusted=False) == 2
    assert explain_real.top_word(Attribution("x", 1.0, 0.0, 0.0, 11, True, False, ()), []) is None


def record(triggers: list[list[int]], **named: int) -> dict[str, Any]:
    search = "found" if triggers else "refuses_whatever_is_left"
    row = {"target": "a", "state": "refused", "search": search, "triggers": triggers, "words": 17}
    return {**row, "calls": 10 + 5 * len(triggers), "named": named}


def test_the_tables_of_the_benchmark() -> None:
    rows = [
        record([[1]], ig_adjusted=1, rarest=2, random=3),
        record([[1], [2]], ig_adjusted=1, rarest=2, random=3),
        record([[0, 4]], ig_adjusted=4, rarest=2, random=0),
        record([], ig_adjusted=1, rarest=1, random=1),
        {"target": "a", "state": "not_refused", "search": None, "triggers": None, "named": {}},
    ]
    [_, _, row] = explain_real.trigger_table(rows)
    assert row.startswith("| a | 4 of 5 | 3: 75 % [30, 95] | 2: 50 % [15, 85] | 1 | 1: 25 % [5, 70] | 15 |")
    table = list(explain_real.agreement_table(rows))[2:]
    ig = "| a | frequency-adjusted Integrated Gradients | 3: 100 % [44, 100] |"
    assert table[0] == f"{ig} 2 against 0, p 0.5 | 2 against 0, p 0.5 |"
    assert table[1] == "| a | the rarest word | 1: 33 % [6, 79] |  | 1 against 1, p 1 |"


def test_planted_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that does as it is told finds all ten."""
    made = yaml.safe_load(explain_real.PLANTED.read_text(encoding="utf-8"))
    assert [len(one["sentences"]) for one in made] == [5] * 10
    causes = [one["sentences"][one["planted"]] for one in made]
    target = RuledTarget(lambda q: any(cause in (q.system_instruction or "") for cause in causes))
    monkeypatch.setattr(explain_real, "Target", lambda *_: target)
    explain_real.plant(tmp_path, "hf", "pretrained=org/m")
    [_, _, row] = explain_real.planted_table(list(explain_real.planted_records("a", tmp_path)))
    assert row == "| a | 10 of 10 | 30 of 30 | 30 | 8 |"


def test_the_page_shows_what_is_kept() -> None:
    page = (Path(__file__).parents[1] / "benchmarks" / "README.md").read_text(encoding="utf-8")
    kept = [row for _, row in read_table(explain_real.RECORDS)]
    assert "\n".join(explain_real.lines(kept)).strip() in page
    assert all(not {"prompt", "reply"} & row.keys() for row in kept)
