"""The answer read back: strict JSON, checks after the mask, the report of each field.

`strictjson` reads a text, whole or unfinished. `reader` says whether it is an instance: by the `postcheck`,
with jsonschema as `library` loads it, and the digits of `decimals`. `spelling` asks the masks for a value
however it is written, `untyped` notes one of a type that its schema speaks nothing of, `report` is of each
field.
"""
