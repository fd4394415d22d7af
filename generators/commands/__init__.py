"""The commands of ``overbench``, by what they work on; :mod:`generators.cli` puts them together."""
