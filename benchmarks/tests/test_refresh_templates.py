"""Old template against new: the tables by hand, a sheet that tells nothing, and a small run of both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import refresh_templates
from refresh_templates import commands, filters_table, measured, readings_table, sheet, with_votes

from generators.refresh.loop import refresh
from generators.refresh.store import Store

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "refresh"))
from refresh_fakes import scripted_run


def row(template: str, identity: str, gate: str = "", reason: str = "", target: str = "") -> dict[str, Any]:
    gate_and_target = {"gate": gate, "reason": reason, "target": target}
    return {
        "checkpoint": "0.5B",
        "template": template,
        "id": identity,
        "prompt": f"about {identity}",
        **gate_and_target,
        "votes": [],
    }


def vote(
    identity: str, verdict: str = "harmless", natural: int = 4, difficulty: int = 3, alibi: int = 0
) -> Any:
    scores = {"natural": str(natural), "difficulty": str(difficulty), "alibi": str(alibi)}
    return {"id": identity, "verdict": verdict, **scores}


ROWS = [
    row("free", "a", target="refused"),
    row("free", "b", target="complied"),
    row("free", "c", gate="form", reason="too_long"),
    row("boundary", "d", target="refused"),
    row("boundary", "e", gate="form", reason="alibi"),
    row("boundary", "f", gate="presence", reason="absent"),
]


def test_the_tables_by_hand() -> None:
    votes = [vote("a"), vote("a", natural=5), vote("b", "harmful", natural=2, difficulty=1, alibi=1)]
    rows = list(with_votes(ROWS, [*votes, vote("d", natural=5, difficulty=4)]))
    assert list(filters_table(rows))[2:] == [
        "| 0.5B | `free` | 3 | 0 | 1 | 0 | 0 | 0 | 2 | 1 of 2, 50 % [9, 91] |",
        "| 0.5B | `boundary` | 3 | 1 | 0 | 0 | 1 | 0 | 1 | 1 of 1, 100 % [21, 100] |",
    ]
    half, single = "1 of 2, 50 % [9, 91]", "1 of 1, 100 % [21, 100]"
    assert list(readings_table(rows))[2:] == [
        f"| 0.5B | `free` | 2 | {half} | 1 | {single} | 3.25 | 2.00 | {half} | {half} |",
        f"| 0.5B | `boundary` | 1 | {single} | 0 | {single} | 5.00 | 4.00 | {single} | 0 of 1, 0 % [0, 79] |",
    ]


def test_a_sheet_has_each_accepted_prompt_once_and_nothing_else() -> None:
    shown = sheet([*ROWS, row("boundary", "a")])
    assert sorted(line["id"] for line in shown) == ["a", "b", "d"]
    read = list(with_votes(ROWS, [vote("a")]))
    assert sorted(line["id"] for line in sheet(read)) == ["b", "d"]
    assert all(set(line) == {"id", "prompt"} for line in shown)


@pytest.mark.parametrize("bad", [vote("e"), vote("a", "fine")])
def test_a_vote_on_another_prompt_or_of_another_kind_is_an_error(bad: Any) -> None:
    with pytest.raises(ValueError, match="Expected a vote on a prompt of the sheet"):
        list(with_votes(ROWS, [bad]))


def test_both_calls_differ_in_template_and_folder_alone(tmp_path: Path) -> None:
    earlier, new = commands(
        "local-chat-completions:model=t,base_url=http://127.0.0.1:1/v1",
        "model=w,base_url=http://127.0.0.1:2/v1",
        "free",
        tmp_path,
    )
    differing = [(word, other) for word, other in zip(earlier, new, strict=True) if word != other]
    folders = (str(tmp_path / "free"), str(tmp_path / "boundary"))
    assert differing == [folders, ("adversary.form=free", "adversary.form=boundary")]
    assert "adversary.base_url=http://127.0.0.1:2/v1" in new and "boundary" in new


def test_a_writer_by_batch_files_has_a_folder_for_each_template(tmp_path: Path) -> None:
    calls = list(commands("pretrained=t", "generator=batch:requests", "opening", tmp_path))
    for form, words in zip(("opening", "boundary"), calls, strict=True):
        assert f"adversary.generator=batch:requests/{form}" in words


def test_candidates_of_both_runs_are_kept_with_their_filters(tmp_path: Path) -> None:
    for form in ("free", "boundary"):
        with Store(tmp_path / "out" / form) as store:
            own = {"adversary": {"form": form}, "rounds": {"rounds": 1, "jobs": 8}}
            refresh(scripted_run(tmp_path, store, **own))
    rows = list(measured(tmp_path / "out", "0.5B"))
    assert {row["template"] for row in rows} == {"free", "boundary"}
    accepted = [row for row in rows if not row["gate"]]
    assert {row["reason"] for row in rows} >= {"absent", "placeholder"}
    assert len(sheet(rows)) == len({row["prompt"] for row in accepted})
    assert refresh_templates.SETTINGS.is_file()


def test_the_page_has_the_tables_of_the_records() -> None:
    rows = refresh_templates.records()
    tables = "\n".join((*filters_table(rows), "", *readings_table(rows)))
    page = Path(refresh_templates.__file__).parents[1] / "docs/measurements/refresh.md"
    assert f"<!-- templates -->\n{tables}\n<!-- /templates -->" in page.read_text(encoding="utf-8")
