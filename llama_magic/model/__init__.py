"""A model as people call it: the prompt, the call, the answer as it grows, structured answers, results."""
