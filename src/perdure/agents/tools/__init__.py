"""What a model may do: files, commands, searches, pages, the tools of other servers. Permissions decide which."""
