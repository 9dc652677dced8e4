"""The experiments of the paper, and its claims checked against them."""
