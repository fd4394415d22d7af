"""Subsets of a release, drawn by item response theory, and the rates on the whole release estimated from
them."""
