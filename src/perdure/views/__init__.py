"""Files written from the log: they can be deleted and are rebuilt."""
