"""``overbench report``: what releases and lm-eval result folders say, as one page, pictures and Markdown."""
