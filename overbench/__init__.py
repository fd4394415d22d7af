"""What is done with results: releases, reports, comparisons, explanations, campaigns, and the command."""
