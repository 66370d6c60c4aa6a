"""`python -m llama_magic COMMAND …` is `llama-magic COMMAND …`."""

from __future__ import annotations

import sys

from llama_magic.command import main

if __name__ == "__main__":  # tests and others import every module
    sys.exit(main())
