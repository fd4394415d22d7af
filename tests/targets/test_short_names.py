"""Names for people: short where a path or a string of arguments was long, and never alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overbench.report.families import Families
from overbench_tasks.outcomes.short_names import hub_repository, short_names, shown_arguments

COMMIT = "a09a35458c702b33eeacc393d103063234e8bc28"
CACHED = f"/home/me/.cache/huggingface/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/{COMMIT}"
QWEN = "Qwen/Qwen2.5-7B-Instruct"
LOCAL, URL = "local-completions", "http://host:{}/v1"


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("/data/checkpoints/tuned", "tuned"),
        ("/data/checkpoints/tuned/", "tuned"),
        ("../checkpoints/tuned", "tuned"),
        ("~/tuned +system:0a1b2c3d -template (repeats 2)", "tuned +system:0a1b2c3d -template (repeats 2)"),
        (r"C:\models\tuned", "tuned"),
        ("/data/qwen,gguf_file=qwen.Q4_K_M.gguf", "qwen"),
        (CACHED, QWEN),
        (f"{CACHED}/4bit/", f"{QWEN}/4bit"),
        ("org/base,peft=/data/run7/checkpoint-500/", "org/base,peft=checkpoint-500"),
        ("org/base,subfolder=x,revision=step-100", "org/base,subfolder=x,revision=step-100"),
        (f"{LOCAL}:base_url={URL.format(8000)},num_concurrent=8", LOCAL),
        ("megatron_lm:load=/data/mine,devices=4", "megatron_lm:load=mine,devices=4"),
        # What is no path of this machine stays: names of the hub, of APIs, and one's own.
        ("org/name", "org/name"),
        ("accounts/fireworks/models/llama", "accounts/fireworks/models/llama"),
        ("qwen2.5:0.5b", "qwen2.5:0.5b"),
        ("SmolLM2-135M, cautious", "SmolLM2-135M, cautious"),
        ("", ""),
    ],
)
def test_one_target_has_a_short_name(long: str, short: str) -> None:
    assert short_names([long]) == {long: short}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["/a/final", "/b/final"], ["a/final", "b/final"]),
        (["/x/a/final", "/y/a/final", "/other"], ["x/a/final", "y/a/final", "other"]),
        (["/a/final", "/b/final +system:0a1b2c3d"], ["a/final", "b/final +system:0a1b2c3d"]),
        (["/a/final", "/a/final +system:0a1b2c3d"], ["final", "final +system:0a1b2c3d"]),
        (["/a/final", "final"], ["a/final", "final"]),
        (["/m/q,gguf_file=4.gguf", "/m/q,gguf_file=8.gguf"], ["q,gguf_file=4.gguf", "q,gguf_file=8.gguf"]),
        (["org/m,peft=/1/last", "org/m,peft=/2/last"], ["org/m,peft=1/last", "org/m,peft=2/last"]),
        (["org/m,peft=/run7/last", "org/m"], ["org/m,peft=last", "org/m"]),
        ([CACHED, QWEN], [f"{QWEN},snapshot=a09a3545", QWEN]),
        (
            [f"{LOCAL}:base_url={URL.format(port)},num_concurrent=8" for port in (1, 2)],
            [f"{LOCAL}:base_url={URL.format(port)}" for port in (1, 2)],
        ),
        (["/a/final", "/a/final/"], ["/a/final", "/a/final/"]),
    ],
)
def test_two_that_would_be_alike_show_what_differs_and_no_more(names: list[str], shown: list[str]) -> None:
    assert list(short_names(names).values()) == shown


PARTS = st.lists(
    st.sampled_from(["a", "b", "final", "models--o--m", "snapshots", COMMIT, ",", ":", "=", " (", ")"])
)
TEXTS = st.one_of(
    st.text(), PARTS.map("/".join), PARTS.map("".join), PARTS.map(lambda parts: "/" + "/".join(parts))
)


@given(st.sets(TEXTS, max_size=6))
def test_no_two_names_are_shown_alike(names: set[str]) -> None:
    shown = short_names(names)
    assert shown.keys() == names and len(set(shown.values())) == len(names)


def test_the_hubs_cache_is_told_by_what_it_holds() -> None:
    assert hub_repository(CACHED) == (QWEN, COMMIT)
    assert hub_repository("/data/models--mine/final") is None
    facts = Families().facts(CACHED)
    assert (facts.family, facts.size) == ("Qwen", 7)


def test_arguments_are_shown_in_full_but_for_folders_and_machines() -> None:
    arguments = f"pretrained={CACHED},dtype=bfloat16,peft=/data/run7/last,base_url={URL.format(1)},revision=x"
    shown = f"pretrained={QWEN}@{COMMIT},dtype=bfloat16,peft=last,revision=x"
    assert shown_arguments(arguments) == shown and shown_arguments(None) is None
