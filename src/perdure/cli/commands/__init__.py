"""One file a command: arguments in, one call of the service, text or JSON out."""
