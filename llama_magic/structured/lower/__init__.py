"""From a schema to what a mask can enforce, keyword by keyword, and what is left to the check."""
