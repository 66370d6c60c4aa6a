"""Views of the results of llama_magic/serving."""
