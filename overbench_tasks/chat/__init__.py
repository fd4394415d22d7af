"""Asking a model behind an OpenAI-compatible API many things, and paying for nothing twice."""
