"""What the .pth file costs at interpreter start.

    python benchmarks/startup.py [RUNS]

Baseline: the same interpreter in an empty virtual environment. Beside it, an environment that holds
the package and its .pth file as a wheel installs them. Runs alternate, so drift hits both alike.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from shared import timed

REPOSITORY = Path(__file__).resolve().parents[1]


def make_environment(folder: Path, with_overbench: bool) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    if with_overbench:
        shutil.copytree(REPOSITORY / "overbench_tasks", site / "overbench_tasks")
        shutil.move(site / "overbench_tasks" / "overbench_autoload.pth", site)
    return folder / "bin" / "python"


ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
"""Without a user's PYTHONDONTWRITEBYTECODE, which would have each start compile the module again."""


def milliseconds(python: Path) -> float:
    return 1000 * timed(lambda: subprocess.run([python, "-c", "pass"], check=True, env=ENVIRONMENT))[0]


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        empty = make_environment(Path(temporary, "empty"), with_overbench=False)
        ours = make_environment(Path(temporary, "ours"), with_overbench=True)
        loaded = "import sys; print('overbench_tasks.autoload' in sys.modules)"
        check = subprocess.run([ours, "-c", loaded], capture_output=True, text=True, check=True)
        assert check.stdout == "True\n", "the .pth file is not at work"
        for python in (empty, ours):
            milliseconds(python)  # writes bytecode, warms the file cache
        times = [(milliseconds(empty), milliseconds(ours)) for _ in range(runs)]
    baseline = statistics.median(a for a, _ in times)
    difference = statistics.median(b - a for a, b in times)
    print(f"empty environment:  {baseline:6.2f} ms (median of {runs})")
    print(f"with overbench:    +{difference:6.2f} ms (median of paired differences)")
    print(f"ratio to baseline:  {(baseline + difference) / baseline:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
