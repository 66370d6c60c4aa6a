"""What is shown while something runs: the live view, the terminal, progress."""
