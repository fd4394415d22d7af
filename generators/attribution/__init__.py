"""Which words of a prompt set the detector off, and how often each has been used."""
