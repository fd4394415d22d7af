"""The OVERBENCH generator and its command line: fresh prompts for one checkpoint."""
