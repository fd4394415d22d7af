"""The detector D_M: will this target refuse this prompt?"""
