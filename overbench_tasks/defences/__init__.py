"""Published defences that consist of a system instruction, by name."""
