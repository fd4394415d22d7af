"""Guards: what a moderation model or endpoint blocks of a prompt set, and of its counterparts."""
