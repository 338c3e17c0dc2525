"""What a person may ask of Perdure: the only door for faces."""
