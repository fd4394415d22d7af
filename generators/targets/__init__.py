"""What a target is called, and asking it as lm-eval would."""
