"""Files that are here: the cache folder, locks, parts, digests."""
