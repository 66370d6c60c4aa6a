"""Views of the results of llama_magic/fit."""
