"""Section 5 of the paper: the hexapod."""
