"""How what `llama_magic.remote` makes is shown."""
