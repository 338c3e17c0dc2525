"""Where runs and events are kept: one protocol, SQLite behind it. Knows tables, not meaning."""
