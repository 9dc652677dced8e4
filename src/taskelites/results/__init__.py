"""Results of a search: solutions, predictions for new tasks, tables and files."""
