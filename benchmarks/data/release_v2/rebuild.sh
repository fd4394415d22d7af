#!/bin/sh
# The bundled release from its inputs, byte for byte: sh benchmarks/data/release_v2/rebuild.sh OUT [INPUTS]
# What release 1.1 had asked already comes from its own logs, with the labels of rules 2.0 that all other logs have.
set -eu
here=$(dirname "$0")
inputs=${2:-$here}
cautious='+system:462511d5='   # the SHA-256 of the system prompts, which the card shows
permissive='+system:bf8cfce2='
strict='+system:strict-policy='
set --  "$1"
for name in qwen2.5-coder-0.5b=Qwen2.5-Coder-0.5B qwen2.5-coder-1.5b=Qwen2.5-Coder-1.5B smollm2-135m=SmolLM2-135M; do
  long=${name%=*} short=${name#*=}
  set -- "$@" --alias "$long=$short" --alias "$long $cautious$short, cautious" \
    --alias "$long $permissive$short, permissive" --alias "$long $strict$short, strict policy"
done
out=$1; shift
earlier=$(mktemp -d)
trap 'rm -r "$earlier"' EXIT
python "$here/labels_of_1.1.py" "$earlier"
overbench aggregate "$inputs"/prompts/*.jsonl --responses "$inputs/logs" --responses "$earlier" \
  --out "$out" --name OVERBENCH --release_version 2.0 --license apache-2.0 --about "$inputs/about.md" \
  --min_rejections 5 --min_checkpoints 2 --hard_targets all "$@"
