"""Files that survive a kill: atomic replace, JSON Lines, blobs, locks, process identity, the state home."""
