"""Answers kept in a file: one SQLite database that several kernels write to and any tool opens."""
