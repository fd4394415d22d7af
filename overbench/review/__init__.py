"""Relabel saved replies, compare labels with people's labels, correct rates for label errors."""
