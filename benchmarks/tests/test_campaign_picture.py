"""The greedy cells of the real campaign with limits that draw: the pages' table and picture."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from campaign_picture import RECORDS, beside_whole_sets, read, table, trade_off
from drawn_parts import table as drawn_table

from overbench.report.figures import png
from overbench.report.report_inputs import Inputs
from overbench.report.stats.rates import osr
from overbench_tasks.metrics.stop_at_ci_width import RateOfPart
from overbench_tasks.tables import read_table

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "measurements" / "campaign.md"
FEWER_PROMPTS = PAGE.with_name("fewer-prompts.md")
SIZES = {"hard": (100, 1271), "pairs": (50, 964), "xstest_safe": (100, 250)}


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return read()


def test_the_table_is_that_of_the_page(inputs: Inputs) -> None:
    text = "\n".join(table(inputs))
    page = PAGE.read_text(encoding="utf-8")
    assert f"<!-- campaign drawn -->\n{text}\n<!-- /campaign drawn -->" in page
    assert beside_whole_sets(inputs) in page.replace("\n", " ")


def test_every_target_was_asked_the_same_prompts_of_all_categories_and_no_text_is_kept(
    inputs: Inputs,
) -> None:
    cells = [row for _, row in read_table(RECORDS) if "name" in row]
    prompt_ids = {row["name"].rpartition("/")[2]: set[tuple[str, ...]]() for row in cells}
    for row in cells:
        prompt_ids[row["name"].rpartition("/")[2]].add(tuple(label["id"] for label in row["labels"]))
        assert all(re.fullmatch("ob-[0-9a-f]{12}", label["id"]) for label in row["labels"])
        assert all(
            set(label) == {"id", "prompt_label", "category", "pair_id", "label"} for label in row["labels"]
        )
    assert len(cells) == 36 and [len(ids) for ids in prompt_ids.values()] == [1] * 4
    for row in cells:
        if "xstest" in row["name"]:
            assert len({label["category"] for label in row["labels"]}) == (
                8 if "unsafe" in row["name"] else 10
            )
    for prompt_set in inputs.sets:
        for rate in osr(prompt_set.matrix).values():
            assert isinstance(rate, RateOfPart) and (rate.n, rate.total) == SIZES[prompt_set.name]


def test_the_picture_is_that_of_the_page(inputs: Inputs) -> None:
    import matplotlib.image

    picture = trade_off(inputs)
    assert len(picture.points) == 9 and [arrow.kind for arrow in picture.arrows] == ["system prompt"] * 6
    assert picture.x_axis.endswith("xstest_safe (100 of 250 prompts)")
    kept = matplotlib.image.imread(RECORDS.with_name("campaign_trade_off.png"))
    drawn = matplotlib.image.imread(io.BytesIO(png(picture)))
    assert kept.shape == drawn.shape and np.abs(kept - drawn).mean() < 0.01  # another font, at most


@pytest.mark.slow
def test_what_a_hundred_prompts_are_off_by(shared_data: Path) -> None:
    lines = list(drawn_table())
    text = "\n".join(lines)
    assert f"<!-- drawn parts -->\n{text}\n<!-- /drawn parts -->" in FEWER_PROMPTS.read_text(encoding="utf-8")
    rows = [[float(cell.split()[0]) for cell in line.split("|")[4:7]] for line in lines[2:]]
    first, drawn = sorted(row[0] for row in rows), sorted(row[2] for row in rows)
    worst = max(float(line.split("|")[4].split("(")[1].split(")")[0]) for line in lines[2:])
    guide = " ".join(
        (REPOSITORY / "docs" / "background" / "campaigns.md").read_text(encoding="utf-8").split()
    )
    assert (
        f"Rates on a drawn hundred are off by {drawn[0]} to {drawn[-1]} points in the mean over models"
        in guide
    )
    assert f"or OR-Bench-Hard are off by {first[0]} to {first[-1]} points in the same mean" in guide
    assert f"for single models by up to {worst:.0f} (" in guide
    tasks = " ".join((REPOSITORY / "docs" / "background" / "sampling.md").read_text(encoding="utf-8").split())
    assert f"by up to {worst:.0f} points" in tasks
