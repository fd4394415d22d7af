"""How lm-eval finds the tasks: plain and editable installs of both packages, in fresh environments.

Each environment has its own site-packages with nothing but pip and what the test installs there;
everything else (lm-eval's dependencies) is read from the environment that runs the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import lm_eval
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PARENT_SITE = Path(sysconfig.get_paths()["purelib"])

LIST_OURS = (
    "from lm_eval.tasks import TaskManager; "
    "print([n for n in TaskManager({}).all_tasks if n.startswith('over')])"
)
NAMES = [
    "overbench",
    "overbench_hard",
    "overbench_hard_judge",
    "overbench_judge",
    "overbench_model",
    "overbench_model_accepted",
    "oversensitivity",
]
OURS = f"{NAMES}\n"


class Environment:
    """A virtual environment that borrows its parent's packages, but neither its ``.pth`` files nor
    the packages under test: lm-eval only if ``lm_eval`` is true, and overbench never."""

    def __init__(self, folder: Path, lm_eval: bool = True) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        borrowed = folder / "borrowed"
        borrowed.mkdir()
        for path in PARENT_SITE.iterdir():
            ours = path.name.startswith(("overbench", "generators", "task_configs"))
            if not ours and path.suffix != ".pth" and (lm_eval or "lm_eval" not in path.name):
                (borrowed / path.name).symlink_to(path)
        self.folder = folder
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        (self.site / "borrowed.pth").write_text(f"{borrowed}\n")
        self.before = self.installed()

    def installed(self) -> set[str]:
        return {p.name for p in self.site.iterdir()} | {p.name for p in (self.folder / "bin").iterdir()}

    def pip(self, *arguments: str) -> None:
        # The parent's pip, aimed at this environment; nothing is downloaded.
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stderr

    def install(self, *arguments: str) -> None:
        self.pip("install", "--no-deps", "--no-build-isolation", "--ignore-installed", "-q", *arguments)

    def run(self, code: str, **variables: str) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            [self.python, "-c", code],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment | variables,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run([*command, str(REPOSITORY)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env")


@pytest.fixture(scope="module")
def lm_eval_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lm-eval's installed source with a pyproject of its own, to install as editable."""
    folder = tmp_path_factory.mktemp("lm-eval")
    source = Path(lm_eval.__file__).parent
    shutil.copytree(source, folder / "lm_eval", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "lm_eval"\nversion = "0.4.13"\n'
        '[tool.setuptools.packages.find]\ninclude = ["lm_eval*"]\n'
    )
    return folder


def test_a_plain_install_is_found_and_leaves_nothing_behind(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    assert environment.run(LIST_OURS.format("")) == OURS
    data = "from overbench_tasks.prompt_sets import bundled_prompts as b; print(len(b('overbench')) > 400)"
    assert environment.run(data) == "True\n"
    environment.pip("uninstall", "-y", "-q", "overbench")
    assert environment.installed() == environment.before
    assert environment.run(LIST_OURS.format("")) == "[]\n"


def test_an_editable_install_is_found_and_leaves_nothing_behind(environment: Environment) -> None:
    environment.install("--editable", str(REPOSITORY))
    assert environment.run(LIST_OURS.format("")) == OURS
    environment.pip("uninstall", "-y", "-q", "overbench")
    assert environment.installed() == environment.before


@pytest.mark.parametrize("editable", [False, True])
def test_an_editable_lm_eval_finds_them_too(
    tmp_path: Path, wheel: Path, lm_eval_copy: Path, editable: bool
) -> None:
    environment = Environment(tmp_path / "env", lm_eval=False)
    environment.install("--editable", str(lm_eval_copy))
    environment.install(*(["--editable", str(REPOSITORY)] if editable else [str(wheel)]))
    where = environment.run("import lm_eval; print(lm_eval.__file__)").strip()
    assert Path(where) == lm_eval_copy / "lm_eval" / "__init__.py"
    assert environment.run(LIST_OURS.format("")) == OURS


def test_lm_evals_own_commands_know_them(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    cli = "import sys; from lm_eval.__main__ import cli_evaluate; sys.argv = ['lm_eval', *{}]; "
    listed = environment.run(cli.format(["ls", "tasks"]) + "cli_evaluate()")
    for name in NAMES:
        assert re.search(rf"^\|{name} +\|", listed, re.MULTILINE), name
    validate = ["validate", "--tasks", ",".join(NAMES)]
    assert "All tasks found and valid" in environment.run(cli.format(validate) + "cli_evaluate()")


def test_the_switch_and_the_flag(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    assert environment.run(LIST_OURS.format(""), OVERBENCH_NO_AUTOLOAD="1") == "[]\n"
    flag = "include_path=__import__('overbench_tasks.autoload').autoload.tasks_path()"
    assert environment.run(LIST_OURS.format(flag), OVERBENCH_NO_AUTOLOAD="1") == OURS
    # With both, the tasks are indexed once and lm-eval reports no override.
    both = "import logging; logging.basicConfig(level='WARNING'); " + LIST_OURS.format(flag)
    assert environment.run(both) == OURS


def test_task_manager_without_defaults_stays_without_us(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    assert environment.run(LIST_OURS.format("include_defaults=False")) == "[]\n"


def test_a_users_task_of_the_same_name_wins(environment: Environment, wheel: Path, tmp_path: Path) -> None:
    environment.install(str(wheel))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "t.yaml").write_text("task: overbench_hard\n")
    code = (
        "from lm_eval.tasks import TaskManager; "
        f"print(TaskManager(include_path={str(mine)!r})._index['overbench_hard'].yaml_path)"
    )
    assert environment.run(code).strip() == str(mine / "t.yaml")


def test_start_imports_nothing_heavy(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    code = (
        "import sys, overbench_tasks; "
        "print([m for m in ('torch', 'transformers', 'lm_eval', 'datasets', 'pathlib', 'typing') "
        "if m in sys.modules])"
    )
    assert environment.run(code) == "[]\n"


def test_a_broken_package_does_not_stop_the_interpreter(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    (environment.site / "overbench_tasks" / "autoload.py").write_text("raise RuntimeError('broken')")
    done = subprocess.run([environment.python, "-c", "print('fine')"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_the_console_script_works_from_another_folder(environment: Environment, wheel: Path) -> None:
    environment.install(str(wheel))
    done = subprocess.run(
        [environment.folder / "bin" / "overbench", "tasks-path"],
        capture_output=True,
        text=True,
        cwd="/",
    )
    folder = Path(done.stdout.strip())
    assert folder == environment.site / "overbench_tasks" / "task_configs"
    assert (folder / "overbench_hard.yaml").is_file()
    assert (folder / "README.md").is_file()
