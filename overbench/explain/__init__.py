"""Why a target refuses a prompt: the words and sentences that do it, found on the target itself."""
