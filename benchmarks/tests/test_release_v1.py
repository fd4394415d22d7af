"""Release 1.1, which stays loadable by name: its inputs give it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from overbench_tasks.prompts.sources import BUNDLED_SETS, source_file

INPUTS = Path(__file__).parents[1] / "data" / "release_v1"


@pytest.mark.skipif(os.name == "nt", reason="needs sh")
def test_the_inputs_give_the_prompts_again(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    rebuild = ["sh", INPUTS / "rebuild.sh", tmp_path / "again"]
    subprocess.run(rebuild, check=True, env=os.environ | {"PATH": path})
    for name, prompts in zip(BUNDLED_SETS, (1555, 809), strict=True):
        bundled = pq.read_table(source_file("overbench-1.1", name))
        assert pq.read_table(tmp_path / "again" / f"{name}.parquet").select(bundled.column_names) == bundled
        assert len(bundled) == prompts
