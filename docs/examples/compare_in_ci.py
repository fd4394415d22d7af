"""Fail a build whose model refuses more harmless prompts than the model before it.

python docs/examples/compare_in_ci.py http://localhost:8000/v1 OLD http://localhost:9000/v1 NEW FOLDER
"""

import subprocess
import sys
from pathlib import Path

old_address, old, new_address, new, folder = sys.argv[1:]
for address, model, name in ((old_address, old, "baseline"), (new_address, new, "candidate")):
    command = ["lm_eval", "--model", "overbench-local-chat", "--tasks", "overbench_hard", "--limit", "200"]
    command += ["--model_args", f"model={model},base_url={address}/chat/completions,num_concurrent=8"]
    command += ["--apply_chat_template", "--log_samples", "--output_path", str(Path(folder) / name)]
    subprocess.run(command, check=True, stdout=sys.stderr)

compare = ["overbench", "compare", str(Path(folder) / "baseline"), str(Path(folder) / "candidate")]
sys.exit(subprocess.run([*compare, "--max_increase", "0.02"], check=False).returncode)
