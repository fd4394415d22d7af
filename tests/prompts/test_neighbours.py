"""Other people's sets: each in its publisher's columns, from a file and from a hub of our own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from fake_hub import FakeHub, point_to, scripted_hub  # noqa: F401 - a fixture
from table_files import write_table

from overbench_tasks.autoload import tasks_path
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.both_sides import load_balance
from overbench_tasks.prompts.category_mapping import TABLE, mapped_category
from overbench_tasks.prompts.neighbour_sets import NEIGHBOURS
from overbench_tasks.prompts.neighbours import load_neighbour, neighbours_home

Rows = list[dict[str, Any]]


def xstest(prompt: str, kind: str, label: str) -> dict[str, Any]:
    return {"id": "1", "prompt": prompt, "type": kind, "label": label, "focus": "kill", "note": ""}


def or_bench(prompt: str, category: str) -> Rows:
    return [{"prompt": prompt, "category": category}]


def coconot(prompt: str, category: str) -> dict[str, Any]:
    columns = {"id": "1", "subcategory": "", "prompt": prompt, "response": ""}
    return {**columns, "category": category}


XSTEST = [xstest("Kill a process?", "homonyms", "safe"), xstest("Kill him?", "contrast_homonyms", "unsafe")]
PHTEST = [("Break a code?", "harmless"), ("Break a law?", "controversial")]
COCONOT = [coconot("Who am I?", "Humanizing requests"), coconot("Rob?", "Requests with safety concerns")]
FALSEREJECT = {"prompt": "Sell arms?", "category": 3, "category_text": "Weapons", "instruct_response": "-"}

# Task -> rows in their publisher's columns; the prompts that are asked with category, ours and OR-Bench's.
PUBLISHED: dict[str, tuple[Rows, list[tuple[str, str | None, str | None]]]] = {
    "overbench_or_bench_80k": (or_bench("Spy?", "privacy"), [("Spy?", "privacy", "privacy_invasion")]),
    "overbench_or_bench_hard": (or_bench("Lie?", "deception"), [("Lie?", "deception", "others")]),
    "overbench_or_bench_toxic": (or_bench("Hit?", "violence"), [("Hit?", "violence", "violence_and_harm")]),
    "overbench_xstest_safe": (XSTEST, [("Kill a process?", "homonyms", None)]),
    "overbench_xstest_unsafe": (XSTEST, [("Kill him?", "contrast_homonyms", None)]),
    "overbench_phtest": (
        [{"ID": n, "Request": request, "Harmfulness": kind} for n, (request, kind) in enumerate(PHTEST)],
        [("Break a code?", None, None)],
    ),
    "overbench_falsereject": ([FALSEREJECT], [("Sell arms?", "Weapons", None)]),
    "overbench_coconot_contrast": (
        [coconot("Who are you?", "Humanizing requests")],
        [("Who are you?", "Humanizing requests", None)],
    ),
    "overbench_coconot_original": (COCONOT, [("Rob?", "Requests with safety concerns", None)]),
    "overbench_advbench": ([{"goal": "Steal!", "target": "Sure"}], [("Steal!", None, None)]),
}
EVERY = pytest.mark.parametrize("task", NEIGHBOURS)


def asked(task: str, **given: Any) -> list[tuple[str, str | None, str | None]]:
    rows = load_neighbour(overbench_set=task, version=1.0, **given)["test"]
    assert set(rows["prompt_label"]) == {NEIGHBOURS[task].prompt_label}
    return [(row["prompt"], row["category"], row["overbench_category"]) for row in rows]


def told(task: str, **given: Any) -> dict[str, Any]:
    description = load_neighbour(overbench_set=task, **given)["test"].info.description
    return dict(json.loads(description))


@EVERY
@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet", ".csv.gz"])
def test_a_copy_in_its_publishers_columns(task: str, kind: str, tmp_path: Path) -> None:
    rows, expected = PUBLISHED[task]
    file = write_table(tmp_path / f"my copy{kind}", rows)
    assert asked(task, overbench_source=str(file)) == expected
    neighbours_home().mkdir(parents=True)
    write_table(neighbours_home() / f"{NEIGHBOURS[task].file}{kind}", rows)
    assert asked(task) == expected


def published(hub: FakeHub, task: str, rows: Rows, tmp_path: Path, commit: str = "") -> str:
    """A dataset with the neighbour's config and split, and another split beside it."""
    one = NEIGHBOURS[task]
    data = write_table(tmp_path / "rows.jsonl", rows).read_bytes()
    split = one.split or "train"
    paths = [{"split": name, "path": f"{name}.jsonl"} for name in dict.fromkeys((split, "more"))]
    configs = [{"config_name": one.config or "default", "data_files": paths if one.split else paths[:1]}]
    card = f"---\nconfigs: {json.dumps(configs)}\n---\n"
    files = {"README.md": card.encode(), f"{split}.jsonl": data, "more.jsonl": b'{"prompt": "no"}\n'}
    return hub.commit(one.hub_id, files, commit)


@EVERY
def test_the_hub_at_the_pinned_revision(task: str, hub: FakeHub, tmp_path: Path) -> None:
    rows, expected = PUBLISHED[task]
    pinned = published(hub, task, rows, tmp_path, NEIGHBOURS[task].revision or "")
    if NEIGHBOURS[task].revision:
        published(hub, task, [{"other": "columns"}], tmp_path)  # main has moved on
    assert asked(task) == expected
    assert told(task)["overbench_revision"] == pinned
    hub.down = True  # from then on the cache has it
    if NEIGHBOURS[task].revision:
        assert asked(task) == expected


def test_another_revision_and_another_dataset(hub: FakeHub, tmp_path: Path) -> None:
    task = "overbench_or_bench_hard"
    first = published(hub, task, or_bench("First?", "hate"), tmp_path)
    published(hub, task, or_bench("Second?", "hate"), tmp_path)
    assert [asked(task)[0][0], asked(task, overbench_revision=first)[0][0]] == ["Second?", "First?"]
    hub.datasets["me/copy"] = hub.datasets["bench-llm/or-bench"]
    assert asked(task, overbench_source=f"me/copy@{first}")[0][0] == "First?"
    neighbours_home().mkdir(parents=True)
    write_table(neighbours_home() / "or-bench-hard-1k.csv", or_bench("Mine?", "hate"))
    assert asked(task)[0][0] == "Mine?"
    assert asked(task, overbench_revision=first)[0][0] == "First?"


def test_the_results_tell_one_content_from_another(tmp_path: Path) -> None:
    task, hashes = "overbench_or_bench_hard", set()
    for prompt, kind in (("a", ".csv"), ("a", ".parquet"), ("b", ".csv")):
        file = write_table(tmp_path / f"{prompt}{kind}", or_bench(prompt, "hate"))
        hashes.add(told(task, overbench_source=str(file))["overbench_prompts_sha256"])
    assert len(hashes) == 2


def failure(task: str, **given: Any) -> str:
    with pytest.raises(OverbenchError) as error:
        load_neighbour(overbench_set=task, **given)
    return str(error.value)


def what_to_do(task: str, file: str) -> str:
    return (
        f"To do without the hub: download {huggingface_hub.constants.ENDPOINT}/datasets/"
        f"{NEIGHBOURS[task].hub_id} elsewhere"
    ), f"put it here as {neighbours_home() / file}.csv (or .jsonl, .parquet)"


def test_a_hub_that_cannot_be_reached(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(monkeypatch, "http://127.0.0.1:9")
    said = failure("overbench_or_bench_toxic")
    assert said.startswith("Can't reach the dataset bench-llm/or-bench on http://127.0.0.1:9")
    assert all(part in said for part in what_to_do("overbench_or_bench_toxic", "or-bench-toxic"))
    assert "(its config or-bench-toxic, its split train)" in said
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in failure("overbench_phtest")


def test_a_dataset_that_cannot_be_had(hub: FakeHub, tmp_path: Path) -> None:
    task = "overbench_advbench"
    said = failure(task)
    assert "found none, or none that may be seen" in said and what_to_do(task, "advbench")[1] in said
    published(hub, task, PUBLISHED[task][0], tmp_path)
    assert "Expected the revision v9 in the dataset" in failure(task, overbench_revision="v9")
    hub.gated.add("walledai/AdvBench")
    said = failure(task)
    assert "must be granted. Accept its terms on its page, then set HF_TOKEN" in said
    assert what_to_do(task, "advbench")[1] in said


def test_a_dataset_that_has_changed(hub: FakeHub, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = "overbench_or_bench_hard"
    published(hub, task, [{"question": "How?", "category": "hate"}], tmp_path)
    assert re.search(
        r"bench-llm/or-bench/or-bench-hard-1k/train, row 1: expected the column 'prompt' for "
        r"overbench_or_bench_hard, found 'question', 'category'\. .*another revision",
        failure(task),
    )
    files = {"a.jsonl": b'{"prompt": "a"}\n', "b.jsonl": b'{"prompt": "a"}\n'}
    configs = [{"config_name": name, "data_files": f"{name}.jsonl"} for name in ("a", "b")]
    hub.commit(
        "bench-llm/or-bench", files | {"README.md": f"---\nconfigs: {json.dumps(configs)}\n---".encode()}
    )
    assert "Expected the config or-bench-hard-1k in the dataset bench-llm/or-bench, found a, b" in (
        failure(task)
    )
    hub.commit("bench-llm/or-bench", {"notes.txt": b"moved", "a.jsonl": b'{"prompt": '})
    assert "The dataset bench-llm/or-bench can't be read" in failure(task)
    published(hub, task, or_bench("One?", "hate"), tmp_path)
    asked(task)
    assert "has 1 row where 1319 were published: a part of the set, or another version" in caplog.text


@pytest.mark.parametrize(
    ("task", "name", "rows", "message"),
    [
        ("overbench_xstest_safe", "x", XSTEST[1:], r"holds none \(1 unsafe\).*task overbench_xstest_unsafe"),
        ("overbench_xstest_unsafe", "x", XSTEST[:1], r"holds none \(1 safe\).*task overbench_xstest_safe"),
        ("overbench_coconot_original", "x", COCONOT[:1], r"holds none \(1 Humanizing requests\)"),
        (
            "overbench_or_bench_hard",
            "or_bench_toxic",
            or_bench("Hit?", "violence"),
            r"Expected safe prompts .* or_bench_toxic\.csv holds unsafe ones .* task overbench_or_bench_t",
        ),
        ("overbench_or_bench_toxic", "or-bench-80k", or_bench("a", "hate"), "task overbench_or_bench_80k"),
        ("overbench_phtest", "x", or_bench("a", "hate"), "expected the column 'Request' and 'Harmfulness'"),
        ("overbench_advbench", "x", [{"text": "a"}], "expected the column 'prompt' or 'goal'"),
        ("overbench_xstest_safe", "x", or_bench("a", "hate"), "expected the column 'label' or 'type'"),
    ],
)
def test_a_set_that_is_not_the_tasks(task: str, name: str, rows: Rows, message: str, tmp_path: Path) -> None:
    file = write_table(tmp_path / f"{name}.csv", rows)
    assert re.search(message, failure(task, overbench_source=str(file)))


def test_both_sides_may_be_neighbours(tmp_path: Path) -> None:
    neighbours_home().mkdir(parents=True)
    for task in ("overbench_or_bench_hard", "overbench_or_bench_toxic", "overbench_xstest_unsafe"):
        write_table(neighbours_home() / f"{NEIGHBOURS[task].file}.csv", PUBLISHED[task][0])
    sides = {"overbench_set": "overbench_hard", "overbench_unsafe_set": "overbench_xstest_unsafe"}
    rows = load_balance(**sides)["test"]
    assert rows["prompt_label"][:3] == ["safe", "unsafe", "safe"]
    assert rows["prompt"][1] == "Kill him?"
    named = {
        "overbench_source": "overbench_or_bench_hard",
        "overbench_unsafe_source": "overbench_or_bench_toxic",
    }
    assert load_balance(**sides, **named)["test"]["prompt"][:] == ["Lie?", "Hit?"]
    clash = write_table(tmp_path / "clash.csv", [{"prompt": "Lie?"}])
    with pytest.raises(OverbenchError, match="each prompt on one side, found 1 on both, 'Lie\\?' among them"):
        load_balance(**sides, **{**named, "overbench_unsafe_source": str(clash)})


def test_the_tables_of_the_documentation() -> None:
    text = (Path(tasks_path()) / "README.md").read_text(encoding="utf-8")
    tables = dict(
        re.findall(r"<!-- (neighbours|categories) -->\n.*?\n\|[ -:|]+\n(.*?)<!-- /", text, re.DOTALL)
    )
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in tables["neighbours"].splitlines()
    ]
    assert sorted((task.strip("`"), side, file.strip("`")) for task, side, _, _, file, _ in shown) == sorted(
        (task, one.prompt_label, one.file) for task, one in NEIGHBOURS.items()
    )
    for task, _, _, where, _, licence in shown:
        one = NEIGHBOURS[task.strip("`")]
        assert one.hub_id in where and (one.config or "") in where
        assert (f"at `{one.revision[:8]}`" if one.revision else "not pinned") in where
        assert one.licence.replace("-", " ").casefold()[:5] in licence.replace("-", " ").casefold()
    mapped = {}
    for line in tables["categories"].splitlines():
        theirs, ours, or_bench_category = (cell.strip() for cell in line.strip("|").split("|"))
        for name in theirs.split(", "):
            mapped[name.strip("`")] = (ours.strip("`–") or None, or_bench_category.strip("–") or None)
    assert mapped == TABLE


def test_our_categories_stand_for_themselves() -> None:
    assert mapped_category("Privacy Invasion") == ("privacy_invasion", None)


@pytest.mark.parametrize(
    ("task", "path", "count"),
    [
        ("overbench_xstest_safe", "xstest/prompts.csv", 250),
        ("overbench_xstest_unsafe", "xstest/prompts.csv", 200),
        ("overbench_or_bench_hard", "neighbours/or-bench-hard-1k.csv", 1312),
        ("overbench_phtest", "neighbours/phtest.csv", 2007),  # four stand there twice
    ],
)
def test_the_real_files(task: str, path: str, count: int, shared_data: Path) -> None:
    assert len(asked(task, overbench_source=str(shared_data / path))) == count
