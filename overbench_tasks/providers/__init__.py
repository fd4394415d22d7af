"""Ask a provider, and keep its statements about a reply beside the text."""
