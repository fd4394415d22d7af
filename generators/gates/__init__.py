"""The gates between a new prompt and the data: form, novelty, presence, detector, moderation."""
