"""How far several annotators agree, against published examples."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from release_fakes import sample
from table_files import write_table

from conftest import ANSWER, REFUSAL, overbench
from overbench.review.agreement import gold_label
from overbench.review.annotators import (
    Annotated,
    Annotations,
    annotator_agreement,
    cohens_kappa,
    consensus,
    fleiss_kappa,
    read_annotations,
)
from overbench.review.sheets import Key, read_sheet, write_sheet
from overbench_tasks.errors import OverbenchError

inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")

# 14 annotators file 10 subjects under 5 heads: the worked example of Wikipedia, "Fleiss' kappa".
FOURTEEN = """0 0 0 0 14; 0 2 6 4 2; 0 0 3 5 6; 0 3 9 2 0; 2 2 8 1 1; 7 7 0 0 0; 3 2 6 3 0; 2 5 3 2 2;
6 5 2 1 0; 0 2 2 3 7"""
RATINGS = np.array([[int(n) for n in row.split()] for row in FOURTEEN.split(";")])


def annotations(*rows: str, sizes: dict[str, int] | None = None) -> Annotations[str]:
    """A letter per annotator, - for none; with sizes, "stratum/letters"."""
    read = [row.rpartition("/")[::2] for row in rows]
    annotated = tuple(
        Annotated("", {}, stratum, tuple(None if label == "-" else label for label in labels))
        for stratum, labels in read
    )
    key = Key("", "", 0, sizes, {}) if sizes else None
    return Annotations(tuple("abcdef"[: len(annotated[0].labels)]), annotated, key)


class TestKappa:
    def test_fleiss_is_that_of_the_worked_example(self) -> None:
        assert float(fleiss_kappa(RATINGS, np.ones(10))) == pytest.approx(0.210, abs=5e-4)
        assert float(fleiss_kappa(RATINGS, np.ones(10))) == pytest.approx(inter_rater.fleiss_kappa(RATINGS))

    def test_cohen_worked_by_hand(self) -> None:
        """Cohen's own kind of table: 20 yes-yes, 5, 10, 15 no-no. (0.7 - 0.5) / (1 - 0.5)."""
        assert float(cohens_kappa(np.array([[20.0, 5], [10, 15]]))) == pytest.approx(0.4)

    @given(st.lists(st.lists(st.sampled_from("abc"), min_size=4, max_size=4), min_size=2, max_size=30))
    def test_fleiss_is_that_of_statsmodels_on_any_labels(self, labels: list[list[str]]) -> None:
        ratings = np.array([[row.count(word) for word in "abc"] for row in labels])
        ours = float(fleiss_kappa(ratings, np.ones(len(labels))))
        with np.errstate(all="ignore"):
            theirs = float(inter_rater.fleiss_kappa(ratings))
        assert ours == pytest.approx(theirs, nan_ok=True, abs=1e-9)
        assert math.isnan(ours) or ours <= 1

    def test_rows_of_a_drawn_sample_weigh_what_they_stand_for(self) -> None:
        """One of two in stratum s stands for 45 of 90, each of two in t for 1: they agree on 45 + 2 of 92."""
        agreement = annotator_agreement(annotations("s/xx", "s/xy", "t/xx", "t/yy", sizes={"s": 90, "t": 2}))
        cells = np.array([[46.0, 45], [0, 1]])
        assert agreement.kappa.value == pytest.approx(float(cohens_kappa(cells)))
        assert agreement.same == pytest.approx(47 / 92)

    def test_intervals_are_those_of_resampled_rows(self) -> None:
        agreement = annotator_agreement(annotations(*["xx"] * 80, *["xy"] * 10, *["yy"] * 110))
        ase = inter_rater.cohens_kappa(np.array([[80, 10], [0, 110]])).std_kappa
        assert agreement.kappa.high - agreement.kappa.low == pytest.approx(2 * 1.96 * ase, rel=0.15)
        assert (
            agreement.line().startswith("a and b: Cohen's kappa 0.8")
            and "alike 95.0% of 200 rows" in agreement.line()
        )

    @pytest.mark.parametrize(
        ("rows", "line"),
        [
            (["xx", "xx"], "Cohen's kappa not defined, one label only (2 rows)"),
            (["x-", "-y"], "no row that all of them labelled"),
            (["xyz", "xx-", "xxx"], "Fleiss' kappa"),
        ],
    )
    def test_where_there_is_little(self, rows: list[str], line: str) -> None:
        assert line in annotator_agreement(annotations(*rows)).line()

    def test_the_consensus_is_the_label_of_most(self) -> None:
        assert consensus(["a", "b", "a", None]) == "a" and consensus(["a", None]) == "a"
        assert consensus(["a", "b"]) is None and consensus([None]) is None and consensus([False]) is False


class TestReading:
    def test_columns_of_one_file_are_annotators(self, tmp_path: Path) -> None:
        rows = [{"reply": REFUSAL, "a": "refused", "b": "1_full_compliance"}, {"reply": "x", "a": 0, "b": ""}]
        read_back = read_annotations([write_table(tmp_path / "r.jsonl", rows)], "a,b", gold_label)
        assert read_back.annotators == ("a", "b")
        assert [row.labels for row in read_back.rows] == [("refused", "complied"), ("complied", None)]

    def test_two_people_of_xstest(self, shared_data: Path) -> None:
        file = shared_data / "xstest" / "completions_gpt4.csv"
        words = ("--reply", "completion", "--prompt", "prompt")
        output = overbench("agreement", file, "--gold", "annotation_1,annotation_2", *words)
        assert "annotation_1 and annotation_2: Cohen's kappa 0.9" in output and "of 450 rows" in output
        assert "on which annotators tie" in output

    def test_the_papers_check_of_500_replies_by_two(self, tmp_path: Path) -> None:
        """Half of the replies are to safe prompts, half of each side refusals as far as there are."""
        log = []
        for n in range(1000):
            prompt = {"id": f"{n}", "prompt": f"P{n}?", "prompt_label": "unsafe" if n % 2 else "safe"}
            log.append(sample(prompt, [REFUSAL if n % 4 < 2 else ANSWER], ["complied"]))
        run = write_table(tmp_path / "samples_overbench_x.jsonl", log)
        sheet = tmp_path / "s.csv"
        overbench("annotate", run, "-o", sheet, "--limit", 500, "--annotators", "anna,ben")
        sheets = [tmp_path / "s.anna.csv", tmp_path / "s.ben.csv"]
        for number, file in enumerate(sheets):
            rows = read_sheet(file)
            assert sum(int(row["prompt"][1:-1]) % 2 for row in rows) == 250
            # Ben calls 10 refusals to safe prompts answers; both call 5 others so.
            refusals = sorted(
                row["id"] for row in rows if row["reply"] == REFUSAL and int(row["prompt"][1:-1]) % 4 == 0
            )
            pardoned = {*refusals[:5], *(refusals[5:15] if number else [])}
            for row in rows:
                no = row["reply"] == REFUSAL and row["id"] not in pardoned
                row["human_label"] = "refused" if no else "complied"
            write_sheet(file, rows)
        output = overbench("agreement", *sheets)
        assert "490 labelled replies" in output and "Left out: 10 rows on which annotators tie." in output
        assert "anna and ben: Cohen's kappa 0.96" in output and "alike 98.0% of 500 rows" in output
        # 110 of 115 for the 250 refusals to safe prompts, 125 of 125 for the 250 to unsafe ones.
        assert ["precision", f"{(110 / 115 + 1) / 2:.4f}"] in [
            line.split()[:2] for line in output.splitlines()
        ]

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"id": "other"}, "'other' is not in the sample's key"),
            ({"sample_key": "b.key.json"}, "sheets of one draw"),
            ({"human_label": "meh"}, "unknown label 'meh'"),
        ],
    )
    def test_sheets_that_do_not_belong_together(
        self, tmp_path: Path, changed: dict[str, str], message: str
    ) -> None:
        run = write_table(tmp_path / "r.jsonl", [{"reply": REFUSAL}])
        words = ("--reply", "reply", "--annotators", "anna,ben", "-o", tmp_path / "s.csv")
        overbench("annotate", run, *words)
        anna, ben = tmp_path / "s.anna.csv", tmp_path / "s.ben.csv"
        for file in (anna, ben):
            write_sheet(file, [row | {"human_label": "refused"} for row in read_sheet(file)])
        write_sheet(ben, [row | changed for row in read_sheet(ben)])
        with pytest.raises(OverbenchError, match=message):
            read_annotations([anna, ben], "human_label", gold_label)
        write_sheet(anna, read_sheet(anna) * 2)
        with pytest.raises(OverbenchError, match="occurs twice"):
            read_annotations([anna], "human_label", gold_label)
