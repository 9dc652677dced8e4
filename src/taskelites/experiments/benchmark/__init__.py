"""`te.bench`: comparisons of algorithms on several domains, and a page about them."""
