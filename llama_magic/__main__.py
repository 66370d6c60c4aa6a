"""`python -m llama_magic COMMAND …` is `llama-magic COMMAND …`."""

from __future__ import annotations

import sys

from llama_magic.command import main

sys.exit(main())
