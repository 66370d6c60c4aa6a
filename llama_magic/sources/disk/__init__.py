"""Files that are here: the cache folder, locks, parts, digests.

- `cache` is where downloads lie, each fetched under its `lock`; `verify` remembers their digests.
- `local` checks a path, `sniff` tells what is no GGUF, `helpers` what is no model of its own, `shards` reads
  names of parts.
- `demo` is the demo model; `files` are the user's own, read and written whole.
"""
