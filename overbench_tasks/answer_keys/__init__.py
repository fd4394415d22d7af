"""Answer keys: what the answer to a prompt must hold, and what of that a reply lacks."""
