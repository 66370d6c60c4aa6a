"""Widgets with controls: the prompt pad, the live trace, the live token strip, questions."""
