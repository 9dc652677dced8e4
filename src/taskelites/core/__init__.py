"""Building blocks of the algorithms: pure functions of arrays, with no files, clock or output."""
