"""Two targets on the same prompts: which got worse, by how much, and is it more than chance?"""
