"""Files over HTTP: requests, transfers that resume, byte ranges.

`client` makes one GET. A `transfer` fetches a file: a `job`, with a `meter`. `ranges` are read of one in
place. `url` knows models by their address, `settings` proxies and certificates.
"""
