"""Which file a task reads: bundled, refreshed for a target, or the user's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import prompt_sets, refreshed
from overbench_tasks.prompts.hub import parse_hub_id


def make_refreshed(target: str, *prompts: str) -> Path:
    folder = refreshed.refreshed_folder(target)
    folder.mkdir(parents=True)
    file = folder / refreshed.REFRESHED_NAME
    file.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts), encoding="utf-8")
    return file


def test_a_bundled_set_becomes_a_test_split() -> None:
    dataset = prompt_sets.load_prompts(overbench_set="overbench", version=1, config_source="x.yaml")["test"]
    assert dataset.column_names == ["id", "prompt", "category", "features", "source"]
    assert len(dataset) >= 400


def test_a_source_takes_the_place_of_any_set(prompt_source: Path) -> None:
    for name in (*prompt_sets.BUNDLED_SETS, "overbench_model"):
        loaded = prompt_sets.load_prompts(overbench_set=name, overbench_source=str(prompt_source))
        assert loaded["test"]["id"][:] == ["a", "b", "c", "d"]
        assert loaded["test"]["category"][3] is None


def test_an_unknown_set_is_an_error() -> None:
    with pytest.raises(OverbenchError, match=r"Unknown overbench_set 'orbench'\. Expected one of"):
        prompt_sets.load_prompts(overbench_set="orbench")


def test_a_misspelt_key_is_not_ignored() -> None:
    with pytest.raises(OverbenchError, match="Did you mean 'overbench_source'"):
        prompt_sets.load_prompts(overbench_set="overbench", overbench_sorce="x.jsonl")


@pytest.mark.parametrize(
    ("model_args", "name"),
    [
        ({"pretrained": "org/m"}, "org/m"),
        ({"model": "gpt-4o-mini", "base_url": "http://x"}, "gpt-4o-mini"),
        ({"pretrained": "org/m", "revision": "main", "dtype": "float16"}, "org/m"),
        ({"pretrained": "org/m", "revision": "step100"}, "org/m,revision=step100"),
        ({"pretrained": "org/m", "gguf_file": "q4.gguf"}, "org/m,gguf_file=q4.gguf"),
        ({"pretrained": "org/m", "peft": "org/lora"}, "org/m,peft=org/lora"),
        ({"tokenizer": "org/t"}, None),
        ({}, None),
    ],
)
def test_a_target_is_named_by_what_changes_its_weights(model_args: dict[str, str], name: str | None) -> None:
    assert refreshed.target_name(model_args) == name


def test_a_local_checkpoint_is_the_same_target_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ckpt").mkdir()
    monkeypatch.chdir(tmp_path)
    assert refreshed.target_name({"pretrained": "ckpt"}) == str((tmp_path / "ckpt").resolve())
    assert refreshed.target_name({"pretrained": "./ckpt/../ckpt"}) == refreshed.target_name(
        {"pretrained": str(tmp_path / "ckpt")}
    )


def test_folders_of_targets_do_not_collide() -> None:
    names = ["a/b", "a-b", "a_b", "A/b", "x" * 200 + "1", "x" * 200 + "2"]
    folders = {refreshed.refreshed_folder(name).name for name in names}
    assert len(folders) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9.-]{1,80}", folder) for folder in folders)


def test_overbench_model_finds_the_set_of_the_evaluated_checkpoint() -> None:
    make_refreshed("org/m", "one", "two")
    make_refreshed("org/other", "three")
    loaded = prompt_sets.load_prompts(overbench_set="overbench_model", pretrained="org/m", dtype="auto")
    assert loaded["test"]["prompt"][:] == ["one", "two"]


def test_overbench_model_reads_the_set_of_a_named_target() -> None:
    file = make_refreshed("org/m", "one")
    for name in ("org/m", file.parent.name):
        loaded = prompt_sets.load_prompts(
            overbench_set="overbench_model", overbench_target=name, pretrained="org/another"
        )
        assert loaded["test"]["prompt"][:] == ["one"]


def test_the_accepted_set_lies_beside_the_verified_one() -> None:
    make_refreshed("org/m", "verified")
    accepted = refreshed.refreshed_folder("org/m") / refreshed.ACCEPTED_NAME
    accepted.write_text('{"prompt": "accepted"}\n')
    loaded = prompt_sets.load_prompts(overbench_set="overbench_model_accepted", pretrained="org/m")
    assert loaded["test"]["prompt"][:] == ["accepted"]


def test_an_unknown_target_says_how_to_make_a_set() -> None:
    make_refreshed("org/model-7b", "one")
    with pytest.raises(OverbenchError) as error:
        prompt_sets.load_prompts(overbench_set="overbench_model", pretrained="org/model-8b")
    message = str(error.value)
    assert "No refreshed prompts for the target 'org/model-8b'" in message
    assert "Nearest known: org-model-7b-" in message
    file = refreshed.refreshed_folder("org/model-8b") / refreshed.REFRESHED_NAME
    assert "overbench refresh" in message
    assert f"It writes {file}, which may also be a file of your own" in message
    assert "overbench_target" in message
    assert "overbench_source" in message
    # Doing as it says works.
    make_refreshed("org/model-8b", "two")
    loaded = prompt_sets.load_prompts(overbench_set="overbench_model", pretrained="org/model-8b")
    assert loaded["test"]["prompt"][:] == ["two"]


def test_a_model_without_a_name_is_told_so() -> None:
    with pytest.raises(OverbenchError, match="name neither 'pretrained' nor 'model'"):
        prompt_sets.load_prompts(overbench_set="overbench_model", base_url="http://x")


def make_release(folder: Path, *, hard: bool = True) -> Path:
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True)
    for name, prompts in (("overbench", ["one", "two"]), ("overbench_hard", ["two"])):
        if name == "overbench" or hard:
            rows = [
                {"id": p, "prompt": p, "category": "others", "features": [p], "round": 1} for p in prompts
            ]
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def test_a_release_folder_serves_both_sets(tmp_path: Path) -> None:
    folder = str(make_release(tmp_path / "my release"))
    for name, prompts in (("overbench", ["one", "two"]), ("overbench_hard", ["two"])):
        loaded = prompt_sets.load_prompts(overbench_set=name, overbench_source=folder)["test"]
        assert loaded["prompt"][:] == prompts
        assert loaded["features"][:] == [[prompt] for prompt in prompts]


def test_a_release_is_found_by_its_name() -> None:
    folder = make_release(prompt_sets.releases_home() / "v1.2")
    assert prompt_sets.prompt_file("overbench", "v1.2") == folder / "overbench.parquet"
    assert prompt_sets.prompt_file("overbench_hard", "v1.2") == folder / "overbench_hard.parquet"
    assert prompt_sets.releases() == ["v1.2"]


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_release(prompt_sets.releases_home() / "v1")
    make_release(tmp_path / "v1")
    monkeypatch.chdir(tmp_path)
    assert prompt_sets.source_file("v1") == Path("v1/overbench.parquet")


def test_an_unknown_source_lists_what_is_there() -> None:
    make_release(prompt_sets.releases_home() / "june")
    with pytest.raises(OverbenchError, match=r"No prompts at 'juni'.*Did you mean 'june'\?"):
        prompt_sets.source_file("juni")
    with pytest.raises(OverbenchError, match=r"ORG/NAME\. Releases there: june\."):
        prompt_sets.source_file("../x y")


def test_a_folder_that_is_no_release_is_an_error(tmp_path: Path) -> None:
    folder = make_release(tmp_path / "r", hard=False)
    with pytest.raises(OverbenchError, match=r"to hold overbench_hard\.parquet, found none"):
        prompt_sets.source_file(str(folder), "overbench_hard")


@pytest.mark.parametrize("source", ["org/name", "hub:org/name", "org/name@v1.0", "hub:org/na.me@refs/pr/1"])
def test_a_dataset_on_the_hub_goes_to_the_hub(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(prompt_sets, "hub_prompt_file", lambda *found: asked.append(found) or Path("x"))
    assert prompt_sets.source_file(source, "overbench_hard") == Path("x")
    assert asked == [(parse_hub_id(source), "overbench_hard")]


def test_a_missing_file_is_no_dataset_on_the_hub() -> None:
    with pytest.raises(OverbenchError, match=r"Expected a file at data/missing\.jsonl, found nothing"):
        prompt_sets.load_prompts(overbench_set="overbench", overbench_source="data/missing.jsonl")
