"""A few prompts that stand for a whole release: drawn by item response theory, and what they tell."""
