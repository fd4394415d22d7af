"""OR-Bench's pipeline: toxic seeds rewritten into harmless prompts that sound like them."""
