"""The filters between a new prompt and the data: form, novelty, presence, detector, moderation."""
