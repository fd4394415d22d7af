"""How varied the prompts of a set are."""
