"""Releases: many models' prompts and replies joined into OVERBENCH and OVERBENCH-HARD, and read again."""
