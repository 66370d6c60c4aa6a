"""What is said to people, and how: counts, sizes, nearest names, harmless text, tables, progress."""
