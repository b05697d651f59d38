"""What credit rules read beyond the columns of a batch."""
