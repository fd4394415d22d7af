"""The risk categories of prompts: by keywords, or by a language model."""
