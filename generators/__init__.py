"""The OVERBENCH generator: fresh prompts for one checkpoint."""

from overbench_tasks import moved

moved.install()
