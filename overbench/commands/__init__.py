"""The commands of ``overbench``, by what they work on; :mod:`overbench.cli` puts them together."""
