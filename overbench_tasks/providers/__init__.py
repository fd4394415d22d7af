"""What a provider says of a reply beside its text. :mod:`overbench_tasks.backends` asks; this room reads."""
