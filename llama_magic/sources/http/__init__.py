"""Files over HTTP: requests, transfers that resume, byte ranges."""
