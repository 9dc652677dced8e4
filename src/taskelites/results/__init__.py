"""What a search found, and what can be made of it: predictions, tables, files."""
