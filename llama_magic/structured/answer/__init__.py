"""The answer read back: strict JSON, checks after the mask, the report of each field."""
