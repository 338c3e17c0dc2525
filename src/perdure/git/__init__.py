"""Git: worktrees, the run branch, the metadata branch."""
