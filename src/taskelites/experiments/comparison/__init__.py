"""`te.compare`: replicates of several algorithms on one problem."""
