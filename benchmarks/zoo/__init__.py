"""Well-known families of networks in small: the names and the layouts that are public."""
