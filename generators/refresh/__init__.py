"""The refresh loop: settings, run directory, stages, and what a run exports."""
