"""Seed prompts: where they are read from, and how they are split."""
