"""Compares two targets on the same prompts: which rates rose, by how much, and whether by more than
chance.
"""
