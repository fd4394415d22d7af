"""Published outcomes of real models: the figures of the documentation, from what is committed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.real_outcomes import FILES, correlations_table, rates_table, read
from overbench.release.aggregate import aggregate
from overbench.report.report_inputs import Inputs, read_inputs
from overbench.report.stats.rates import osr
from overbench.report.write_report import build, markdown
from overbench_tasks.metrics import Rate
from overbench_tasks.outcomes.outcome_tables import find_outcomes

pytestmark = pytest.mark.slow  # tables and pictures of the pages


PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "outcomes.md"


def block(name: str) -> list[str]:
    match = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    return match[1].splitlines()


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return read()


def test_the_tables_are_those_of_the_page(inputs: Inputs) -> None:
    assert list(rates_table(inputs)) == block("outcome rates")
    assert list(correlations_table(inputs)) == block("outcome correlations")


def test_safety_and_over_refusal_go_together_as_the_labels_of_empty_replies_have_it(inputs: Inputs) -> None:
    rho = [row.split(" | ")[2].split()[0] for row in list(correlations_table(inputs))[2:]]
    assert rho == ["0.05", "0.57", "0.12"]


def test_empty_replies_are_in_no_rate_and_stand_first_on_the_page(inputs: Inputs) -> None:
    [hard] = [prompt_set for prompt_set in inputs.sets if prompt_set.name == "or_bench_hard"]
    assert osr(hard.matrix)["gpt-5.5"] == Rate(56, 298)
    report = build(inputs)
    page = markdown(report, "report.html", "figures")
    note = "1,014 of 1,312 replies (77.3 %) could not be scored (empty 1,014)"
    assert page.index(note) < page.index("## Oversensitivity rate")
    [table] = [
        table for section in report.sections for table in section.tables if table.key == "category-labels"
    ]
    rows = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for row in table.rows}
    assert len(rows) == 8 * 10
    of_gpt = [row for (model, _), row in rows.items() if model == "gpt-5.5"]
    assert [sum(int(row[index]) for row in of_gpt) for index in (0, 3, 5)] == [1312, 11, 1014]


def test_one_release_of_both_tables_has_the_same_rates(inputs: Inputs, tmp_path: Path) -> None:
    aggregate([], [], tmp_path / "out", outcomes=find_outcomes(list(FILES.values())))
    released = read_inputs([tmp_path / "out"])
    parts = {part.name: osr(part.matrix) for part in released.parts}
    assert parts == {prompt_set.name: osr(prompt_set.matrix) for prompt_set in inputs.sets}
    assert released.unsafe[0].correct_refusals() == inputs.unsafe[0].correct_refusals()
    assert "gpt-5.5 on or_bench_hard: 1,014 of 1,312 replies" in released.notes[0]
