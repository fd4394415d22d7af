"""Labels of saved replies: given again, compared with people's, corrected for their errors."""
