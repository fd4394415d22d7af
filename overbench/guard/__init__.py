"""Measures guards: how many harmless prompts, and how many harmful counterparts, a moderation model
blocks.
"""
