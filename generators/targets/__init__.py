"""Asking a target as lm-eval would, and what is kept of its replies."""
