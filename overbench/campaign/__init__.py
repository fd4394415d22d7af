"""Many targets, system prompts, decodings and prompt sets from one file: every cell through lm_eval."""
