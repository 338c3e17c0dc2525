"""One file a handler: the code behind a kind of node."""
