"""Repositories of the hub and its cache."""
