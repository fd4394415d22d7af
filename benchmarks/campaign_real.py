"""A campaign on real models: undisturbed; killed at random moments and continued; grown. And what it costs.

    python benchmarks/campaign_real.py                    # the tables of the records that are kept
    python benchmarks/campaign_real.py --run OUT --checkpoints FOLDER --server "PYTHON -m MODULE"
    python benchmarks/campaign_real.py --killed OTHER --times 10 --seed 0 --minutes 70 ...
    python benchmarks/campaign_real.py --ray OTHER --like OUT ...
    python benchmarks/campaign_real.py --compare OUT OTHER
    python benchmarks/campaign_real.py --grown OUT ...
    python benchmarks/campaign_real.py --throughput FILE --target qwen2.5-coder-0.5b ...
    python benchmarks/campaign_real.py --keep OUT OTHER --throughput FILE

The campaign is ``campaign_real.yaml``. FOLDER has the checkpoints under their names (``--checkpoints`` may be
given several times), as ``refresh_real.py`` makes them; the program starts an OpenAI-compatible server, such
as ``-m vllm.entrypoints.openai.api_server``. XSTest, OR-Bench and HH-RLHF come from the folder that
``OVERBENCH_SHARED_DATA`` names. ``--targets``, ``--system_prompts``, ``--decodings``, ``--sets``,
``--limit``, ``--tokens`` and ``--repeats`` make it smaller. Each command goes on where it was; what a run
asked and when it was killed stands in ``OUT.record.json``, and what ``overbench campaign`` said in
``OUT.log``. The prompts of the refresh are written by a template.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from campaign_records import cell_records, cells_of, compare_lines, keep, tables, tables_on_ray
from campaign_watch import read_record, watched, watched_on_ray
from labelled_sets import SHARED_DATA

from overbench_tasks.tables import whole_file

SETTINGS = Path(__file__).with_suffix(".yaml")
WRITER_PORT = 8172
_BLANK = re.compile(r"<([\w.-]+)>")


def prompt_files() -> dict[str, str]:
    """What stands for the files of prompts."""
    return {
        "xstest": str(SHARED_DATA / "xstest" / "prompts.csv"),
        "or_bench_hard": str(SHARED_DATA / "neighbours" / "or-bench-hard-1k.csv"),
        "seeds": str(SHARED_DATA / "hh_rlhf" / "harmless_base_test.jsonl.gz"),
    }


def filled(value: Any, blanks: Mapping[str, str]) -> Any:
    """Settings with what stands for each ``<name>`` in them."""
    if isinstance(value, dict):
        return {key: filled(item, blanks) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, blanks) for item in value]
    return _BLANK.sub(lambda match: blanks[match[1]], value) if isinstance(value, str) else value


def settings(given: argparse.Namespace, blanks: Mapping[str, str], *, grown: bool = False) -> dict[str, Any]:
    """The campaign's file, with the options' numbers and, where it is to be grown, what is added."""
    whole = yaml.safe_load((given.settings or SETTINGS).read_text(encoding="utf-8"))
    campaign, more = whole["campaign"], whole["grown"]
    if given.targets:
        campaign["targets"] = [target for target in campaign["targets"] if target["name"] in given.targets]
    for part in ("system_prompts", "decodings", "sets"):
        if chosen := getattr(given, part):
            campaign[part] = {name: campaign[part][name] for name in chosen}
    if grown:
        campaign["targets"].append(more["target"])
        campaign["sets"] |= more["sets"]
    names, prompts = [target["name"] for target in campaign["targets"]], set(campaign["system_prompts"])
    if given.pairs:
        campaign["sets"]["pairs"]["source"] = str(given.pairs.absolute())
    for name, prompt_set in [*campaign["sets"].items()]:
        wanted = prompt_set.get("targets", names)
        wanted = [*wanted, more["target"]["name"]] if grown and name in more["of_sets"] else wanted
        prompt_set["targets"] = [target for target in wanted if target in names]
        if prompt_set.get("system_prompts"):
            prompt_set["system_prompts"] = [
                prompt for prompt in prompt_set["system_prompts"] if prompt in prompts
            ]
        if given.limit and "limit" in prompt_set:
            prompt_set["limit"] = min(prompt_set["limit"], given.limit)
        refreshed = any(target.get("refresh") for target in campaign["targets"])
        if not prompt_set["targets"] or (prompt_set.get("refreshed") and not refreshed):
            del campaign["sets"][name]
    if not any(prompt_set.get("refreshed") for prompt_set in campaign["sets"].values()):
        campaign["targets"] = [{**target, "refresh": False} for target in campaign["targets"]]
    for decoding in campaign["decodings"].values():
        if given.tokens:
            decoding["gen_kwargs"]["max_gen_toks"] = given.tokens
        if given.repeats and "repeats" in decoding:
            decoding["repeats"] = given.repeats
    return dict(filled(campaign, blanks))


def template_writer(text: str, _: int = 1) -> str:
    """Writes what a request of the form ``free`` asks for: harmless questions with its word."""
    word = re.findall(r"<word>(.*?)</word>", text)[-1]
    count = int(re.findall(r"Number of new questions: (\d+)", text)[-1])
    places = (
        "in a film",
        "on a stage",
        "in a video game",
        "in a crossword puzzle",
        "in a novel",
        "at a fair",
    )
    kinds = (
        "How do actors show",
        "Who first wrote of",
        "What is a harmless way to explain",
        "Where do I read of",
    )
    drawn = random.Random(text)
    made = [f"{n}. {drawn.choice(kinds)} '{word}' {drawn.choice(places)}?" for n in range(1, count + 1)]
    return "\n".join(made)


def run(given: argparse.Namespace, out: Path, kind: str, kill_after: Callable[[], list[float]]) -> None:
    """The campaign in ``out``, with a writer beside it for its refresh."""
    from fault_server import fault_server

    read = (given.settings or SETTINGS).read_text(encoding="utf-8")
    blanks = prompt_files() if "<xstest>" in read else {}
    blanks |= {"server": given.server or "", "dtype": given.dtype}
    blanks |= {"writer": f"http://127.0.0.1:{WRITER_PORT}/v1"}
    for folder in given.checkpoints:
        blanks |= {path.name: str(path.absolute()) for path in folder.iterdir() if path.is_dir()}
    file = out.with_name(f"{out.name}.yaml")
    campaign = settings(given, blanks, grown=kind == "grown")
    with whole_file(file) as text:
        yaml.safe_dump(campaign, text, sort_keys=False, allow_unicode=True)
    with ExitStack() as stack:
        if any(target.get("refresh") for target in campaign["targets"]):
            writer = stack.enter_context(fault_server(template_writer, port=WRITER_PORT))
            writer.models = ["template-writer"]
            os.environ.setdefault("OPENAI_API_KEY", "none")
        if kind == "ray":
            record = watched_on_ray(out, file, len(cells_of(given.like.absolute())))
        else:
            record = watched(out, file, kill_after(), kind)
    failed = record[kind]["attempts"][-1]["exit_code"]
    print(f"{out}: {len(list(out.glob('cells/**/cell.json')))} cells; exit code {failed}; said in {out}.log")
    if failed:
        raise SystemExit(failed)


def moments(times: int, seed: int, seconds: float) -> list[float]:
    """``times`` random moments of so many seconds, one in each of as many equal parts."""
    drawn = random.Random(seed)
    return [round((part + drawn.random()) * seconds / times, 1) for part in range(times)]


def expected(like: Path | None, targets: Collection[str] | None, systems: Collection[str] | None) -> float:
    """Seconds that these targets are expected to take under these system prompts, all where none are named,
    by an undisturbed run and its cells."""
    if like is None:
        raise SystemExit("expected --minutes, or --like OUT of an undisturbed run")
    whole = sum(attempt["seconds"] for attempt in read_record(like.absolute())["undisturbed"]["attempts"])
    cells = [*cell_records(like.absolute())]
    chosen = [
        row["seconds"]
        for row in cells
        if (not targets or row["target"] in targets) and (not systems or row["system_prompt"] in systems)
    ]
    return float(whole * sum(chosen) / sum(row["seconds"] for row in cells))


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, metavar="OUT")
    parser.add_argument("--killed", type=Path, metavar="OUT")
    parser.add_argument("--grown", type=Path, metavar="OUT")
    parser.add_argument("--ray", type=Path, metavar="OUT", help="on two nodes, see campaign_nodes.py")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="OUT")
    parser.add_argument("--keep", type=Path, nargs="+", metavar="OUT")
    parser.add_argument("--throughput", type=Path, metavar="FILE", help="measure, unless it is there")
    parser.add_argument("--checkpoints", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--server", help="the program that serves, with its first words")
    parser.add_argument("--dtype", default="bfloat16", help="of its numbers; float32 where a CPU lacks these")
    parser.add_argument("--pairs", type=Path, help="pairs of prompts in place of the release's")
    parser.add_argument("--settings", type=Path, help=f"in place of {SETTINGS.name}")
    parser.add_argument("--targets", nargs="+")
    parser.add_argument("--system_prompts", nargs="+")
    parser.add_argument("--decodings", nargs="+")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--times", type=int, default=10, help="to kill it")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--minutes", type=float, help="it is expected to take; default: as --like took")
    parser.add_argument("--like", type=Path, metavar="OUT", help="an undisturbed run of the same campaign")
    parser.add_argument("--url", help="of a server that is up, for --throughput")
    parser.add_argument("--target", default="qwen2.5-coder-0.5b", help="of --throughput")
    parser.add_argument("--rounds", type=int, default=4, help="of --throughput")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

    def kill_after() -> list[float]:
        seconds = (
            60 * given.minutes if given.minutes else expected(given.like, given.targets, given.system_prompts)
        )
        return moments(given.times, given.seed, seconds)

    if given.run:
        run(given, given.run.absolute(), "undisturbed", list)
    elif given.killed:
        run(given, given.killed.absolute(), "killed", kill_after)
    elif given.ray:
        if given.like is None:
            parser.error("--ray expects --like OUT, a run of the same campaign on this machine alone")
        run(given, given.ray.absolute(), "ray", list)
    elif given.grown:
        run(given, given.grown.absolute(), "grown", list)
    elif given.compare:
        print("\n".join(compare_lines(*given.compare)))
    elif given.keep:
        keep(given.keep, given.throughput)
    elif given.throughput:
        from backend_throughput import measure

        measure(given)
    else:
        print("\n".join([*tables(), "", *tables_on_ray()]))


if __name__ == "__main__":
    main()
