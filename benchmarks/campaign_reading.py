"""Print how often who reads a campaign's way from settings to report goes back to a module read before.

    python benchmarks/campaign_reading.py

A small campaign runs through ``overbench campaign FILE``, with a stand-in for ``lm_eval``, under a trace
hook. The modules of ``overbench/campaign`` are read in the order in which a function of theirs is first
entered. A call goes back where it enters a module that comes before the caller's in this order. Each pair of
modules counts once. Properties don't count: they are fields of a record that the reader knows. The function
that prints lines, which is handed down from the command, counts once, whoever calls it.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests" / "campaign"), str(REPOSITORY / "tests")]
from campaign_fakes import STAND_IN, prepared  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from overbench.cli import app  # noqa: E402
from overbench_tasks.refusal import RULES_VERSION  # noqa: E402

COMMAND = str(REPOSITORY / "overbench" / "commands" / "campaign_commands.py")
READ = (str(REPOSITORY / "overbench" / "campaign") + os.sep, COMMAND)


class Reading:
    """The modules that a run enters, in order, and the calls between them.

    Attributes:
        modules: in the order in which they are first entered.
        calls: (module of the caller, module entered) -> the functions that are no properties.
    """

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.calls: dict[tuple[str, str], set[str]] = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A trace hook: see :func:`sys.settrace`."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(READ) or _is_imported(frame):
            return
        self.modules.setdefault(code.co_filename)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(READ):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename and not _is_property(frame):
            pair = caller.f_code.co_filename, code.co_filename
            self.calls.setdefault(pair, set()).add(code.co_qualname)

    def back(self) -> Iterator[str]:
        """The pairs of modules of which a call goes back, as lines."""
        order = {module: number for number, module in enumerate(self.modules)}
        printing = False
        for (caller, entered), functions in self.calls.items():
            if order[entered] > order[caller]:
                continue
            if entered == COMMAND:
                printing = True
                continue
            yield f"{_short(caller)} -> {_short(entered)}: {', '.join(sorted(functions))}"
        if printing:
            yield f"several -> {_short(COMMAND)}: the function that prints lines"


def _is_imported(frame: FrameType) -> bool:
    """Whether it runs while a module is imported."""
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename != __file__:
        if caller.f_code.co_name == "<module>":
            return True
        caller = caller.f_back
    return False


def _is_property(frame: FrameType) -> bool:
    owner = frame.f_locals.get("self")
    attribute = inspect.getattr_static(type(owner), frame.f_code.co_name, None)
    function: Any = attribute.fget if isinstance(attribute, property) else getattr(attribute, "func", None)
    is_property = isinstance(attribute, property | cached_property)
    code: CodeType | None = getattr(function, "__code__", None)
    return is_property and code is frame.f_code


def _short(module: str) -> str:
    return str(Path(module).relative_to(REPOSITORY / "overbench"))


def read_campaign(folder: Path) -> Reading:
    """Run a campaign of four cells in ``folder``, and watch it."""
    settings = {**prepared(folder), "decodings": {"greedy": {}}, "report": {}}
    (folder / "study.yaml").write_text(yaml.safe_dump(settings))
    os.environ |= {
        "LM_EVAL_ASKED": str(folder / "asked"),
        "LM_EVAL_RULES": RULES_VERSION,
        "PYTHONPATH": os.pathsep.join([str(STAND_IN), str(REPOSITORY)]),
    }
    reading = Reading()
    argv = ["campaign", str(folder / "study.yaml"), "--out", str(folder / "out")]
    threading.settrace(reading.note)
    sys.settrace(reading.note)
    try:
        result = CliRunner().invoke(app, argv)
    finally:
        sys.settrace(None)
        threading.settrace(None)
    if result.exit_code:
        raise SystemExit(f"{result.output}\n{json.dumps(settings)}")
    return reading


def main() -> None:
    """Print the modules in their order, and the calls that go back."""
    with tempfile.TemporaryDirectory() as folder:
        reading = read_campaign(Path(folder))
    for number, module in enumerate(reading.modules, 1):
        print(f"{number:2}  {_short(module)}")
    lines = list(reading.back())
    for line in lines:
        print(f"back: {line}")
    print(f"{len(reading.modules)} modules, {len(lines)} times back")


if __name__ == "__main__":
    main()
