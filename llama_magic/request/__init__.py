"""What is asked of a source of tokens, and what comes back: sampling, requests, events, the seam itself."""
