"""From schema keywords to grammar rules."""
