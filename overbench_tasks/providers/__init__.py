"""What a provider says of a reply beside its text. :mod:`overbench_tasks.providers.backends` asks; this room reads."""
