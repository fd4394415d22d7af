"""A hub of our own in place of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import datasets
import huggingface_hub.constants
import pytest
from fake_hub import FakeHub, fake_hub, point_to


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    with fake_hub() as server:
        point_to(monkeypatch, server.url)
        yield server
