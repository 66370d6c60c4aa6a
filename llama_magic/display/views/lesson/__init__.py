"""Views of what llama_magic/lesson asks."""
