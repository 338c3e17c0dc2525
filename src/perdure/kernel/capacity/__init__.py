"""How many agents work at once on this machine: limits, mutex tags, the line of those who wait."""
