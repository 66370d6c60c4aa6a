"""What requests may hold, as pydantic models: each field, its type, its limits. No other field is taken."""
