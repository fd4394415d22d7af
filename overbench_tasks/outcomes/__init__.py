"""What targets did with prompts: logs, releases and tables of outcomes, and the targets themselves."""
