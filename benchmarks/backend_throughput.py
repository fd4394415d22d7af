"""Labelling throughput of a cell beside what its backend gives a bare client: see ``campaign_real.py``.

Three ways in turn, several rounds: a bare asyncio client that does nothing with the replies; lm-eval's own
``local-chat-completions``, no labels; our ``overbench-local-chat`` on the task, with cache, labels and
metrics, as in a cell. Each asks the same prompts greedily with as many in flight. The clock runs from the
first request until the last reply is there (bare, lm-eval's own), or the metrics are (ours). Starting Python,
reading the set and what lm-eval gathers of the machine for its results file are in none of them. Tokens are
those that the server counts (``/metrics``), else those of the bare client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
import socket
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

import aiohttp
from shared import served

TASK: Final = "overbench_hard"
IN_FLIGHT, TOKENS, PROMPTS = 64, 32, 100
WAYS: Final = {
    "bare": "a bare asyncio client",
    "lm_eval": "lm-eval's local-chat-completions, no labels",
    "cell": "a cell: overbench-local-chat, cache, labels, metrics",
}


def prompts(count: int) -> list[str]:
    """The first of the task."""
    from overbench_tasks.prompts.prompt_sets import load_prompts

    return list(load_prompts(overbench_set=TASK)["test"]["prompt"][:count])


def bare(url: str, model: str, texts: Sequence[str], tokens: int) -> tuple[float, int, list[str]]:
    """Seconds, tokens and replies."""
    settings = {"model": model, "max_tokens": tokens, "temperature": 0, "seed": 1234}

    async def ask(session: aiohttp.ClientSession, limit: asyncio.Semaphore, prompt: str) -> Any:
        body = {**settings, "messages": [{"role": "user", "content": prompt}]}
        async with limit, session.post(f"{url}/chat/completions", json=body) as response:
            response.raise_for_status()
            return json.loads(await response.read())

    async def all_of_them() -> list[Any]:
        limit, patient = asyncio.Semaphore(IN_FLIGHT), aiohttp.ClientTimeout(1800)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=patient) as session:
            return await asyncio.gather(*(ask(session, limit, prompt) for prompt in texts))

    begun = time.perf_counter()
    completions = asyncio.run(all_of_them())
    took = time.perf_counter() - begun
    replies = [completion["choices"][0]["message"]["content"] or "" for completion in completions]
    return took, sum(completion["usage"]["completion_tokens"] for completion in completions), replies


def by_lm_eval(url: str, model: str, count: int, tokens: int, *, ours: bool) -> tuple[float, list[str]]:
    """Seconds and replies, of lm-eval's own backend without labels, or of a cell."""
    from lm_eval import evaluator
    from lm_eval.api.registry import get_model

    kind = "overbench-local-chat" if ours else "local-chat-completions"
    arguments = f"model={model},base_url={url}/chat/completions,num_concurrent={IN_FLIGHT},timeout=1800"
    if not ours:
        arguments += ",max_retries=3,tokenized_requests=False"
    backend, clock = get_model(kind), [0.0, 0.0]
    ask, evaluate = backend.generate_until, evaluator.evaluate

    def asked(self: Any, requests: Any, **more: Any) -> Any:
        clock[0] = time.perf_counter()
        answers = ask(self, requests, **more)
        clock[1] = time.perf_counter()
        return answers

    def evaluated(*given: Any, **more: Any) -> Any:
        results = evaluate(*given, **more)
        if ours:
            clock[1] = time.perf_counter()
        return results

    backend.generate_until, evaluator.evaluate = asked, evaluated
    try:
        with tempfile.TemporaryDirectory() as folder:
            results = evaluator.simple_evaluate(
                kind,
                arguments,
                [TASK],
                limit=count,
                gen_kwargs=f"max_gen_toks={tokens}",
                apply_chat_template=True,
                log_samples=True,
                use_cache=f"{folder}/cache" if ours else None,
            )
    finally:
        backend.generate_until, evaluator.evaluate = ask, evaluate
    return clock[1] - clock[0], [row["resps"][0][0] for row in results["samples"][TASK]]


def tokens_so_far(url: str) -> float | None:
    """New tokens that a server has made since its start; None where it doesn't tell."""
    with suppress(OSError, ValueError):
        with urllib.request.urlopen(f"{url.removesuffix('/v1')}/metrics", timeout=30) as response:
            counts = re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", response.read().decode(), re.M)
        return sum(map(float, counts)) if counts else None
    return None


def rounds(url: str, model: str, count: int, tokens: int, number: int) -> Iterator[dict[str, Any]]:
    """A row for each round and way; without the first, in which the server reads all prompts anew."""
    texts = prompts(count)
    ways: dict[str, Callable[[], tuple[float, list[str]]]] = {
        "lm_eval": lambda: by_lm_eval(url, model, count, tokens, ours=False),
        "cell": lambda: by_lm_eval(url, model, count, tokens, ours=True),
    }
    first: list[str] = []
    for round_number in range(number + 1):
        before = tokens_so_far(url)
        took, made, replies = bare(url, model, texts, tokens)
        first = first or replies
        runs = [("bare", took, tokens_so_far(url), replies)]
        for way, run in ways.items():
            took, replies = run()
            runs.append((way, took, tokens_so_far(url), replies))
        for way, took, after, replies in runs:
            counted = made if before is None or after is None else after - before
            before = after
            same = sum(reply == other for reply, other in zip(replies, first, strict=True))
            if round_number:
                yield {
                    **{"round": round_number, "way": way, "seconds": round(took, 3), "tokens": int(counted)},
                    **{"prompts": count, "model": model, "same_as_first": same},
                }


def measure(given: argparse.Namespace) -> None:
    """Start a server, unless one is named, measure, write the rows and print them."""
    from campaign_real import settings

    if given.throughput.is_file():
        print(f"{given.throughput} is there")
        return
    folders = {path.name: str(path.absolute()) for folder in given.checkpoints for path in folder.iterdir()}
    count, tokens = given.limit or PROMPTS, given.tokens or TOKENS
    with ExitStack() as stack:
        url = given.url
        if url is None:
            blanks = dict.fromkeys(("xstest", "seeds", "writer", "or_bench_hard"), "")
            given.targets = [given.target]
            (target,) = settings(given, {**blanks, **folders, "server": given.server})["targets"]
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            words = target["server"]["command"].replace("{port}", port).replace("{model}", given.target)
            url = f"http://127.0.0.1:{port}/v1"
            log = stack.enter_context(given.throughput.with_suffix(".server.log").open("wb"))
            stack.enter_context(served(shlex.split(words), url, log=log, within_sec=900))
        rows = list(rounds(url, given.target, count, tokens, given.rounds))
    given.throughput.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print("\n".join(throughput_lines(rows)))


def throughput_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A table: the medians of each way, and their ratios."""
    speeds = {way: [row["tokens"] / row["seconds"] for row in rows if row["way"] == way] for way in WAYS}
    yield "| way | tokens/s, median | rounds | of the bare client's | replies as in the first round |"
    yield "| --- | ---: | --- | ---: | ---: |"
    base = statistics.median(speeds["bare"])
    for way, rates in speeds.items():
        middle = statistics.median(rates)
        listed = " ".join(f"{rate:.1f}" for rate in rates)
        of_way = [row for row in rows if row["way"] == way]
        same = f"{sum(row['same_as_first'] for row in of_way)} of {sum(row['prompts'] for row in of_way)}"
        yield f"| {WAYS[way]} | {middle:.1f} | {listed} | {middle / base:.3f} | {same} |"
