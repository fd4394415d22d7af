"""Small named models: where they come from, and the cache they are kept in."""
