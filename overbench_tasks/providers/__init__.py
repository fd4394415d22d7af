"""Ask a provider, and keep what it says of a reply beside its text."""
