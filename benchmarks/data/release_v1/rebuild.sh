#!/bin/sh
# The bundled release from its inputs, byte for byte: sh benchmarks/data/release_v1/rebuild.sh OUT [INPUTS]
set -eu
inputs=${2:-$(dirname "$0")}
cautious='+system:462511d5=' # the SHA-256 of the system prompt, which the card shows
exec overbench aggregate "$inputs"/prompts/*.jsonl --responses "$inputs/logs" --out "$1" \
  --name OVERBENCH --release_version 1.1 --license apache-2.0 --about "$inputs/about.md" \
  --refused_only --min_rejections 3 --min_checkpoints 2 --hard_targets all \
  --alias 'qwen2.5-coder-0.5b=Qwen2.5-Coder-0.5B' \
  --alias "qwen2.5-coder-0.5b ${cautious}Qwen2.5-Coder-0.5B, cautious" \
  --alias 'qwen2.5-coder-1.5b=Qwen2.5-Coder-1.5B' \
  --alias "qwen2.5-coder-1.5b ${cautious}Qwen2.5-Coder-1.5B, cautious" \
  --alias 'smollm2-135m=SmolLM2-135M' \
  --alias "smollm2-135m ${cautious}SmolLM2-135M, cautious"
