"""`te.bench`: algorithms over several domains, and the page on them."""
