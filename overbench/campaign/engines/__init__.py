"""What carries out the jobs of a campaign."""
