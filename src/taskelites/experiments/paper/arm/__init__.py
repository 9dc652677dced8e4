"""Section 4 of the paper: the arm."""
