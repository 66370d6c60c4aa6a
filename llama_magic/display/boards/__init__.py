"""Widgets with controls: the prompt pad and the live trace."""
