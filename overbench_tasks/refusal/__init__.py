"""Labels of replies by rules: :func:`label_reply`. Standard library only."""

from overbench_tasks.refusal.rules import RULES_VERSION, gives_something, label_reply

__all__ = ["RULES_VERSION", "gives_something", "label_reply"]
