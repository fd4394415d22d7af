"""``overbench report``: releases and lm-eval result folders as one page, pictures and Markdown."""
