"""What no checkpoint ever takes in: caches and installed packages, unless the repository tracks them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

EXCLUDED = (
    "node_modules", "target", "dist", "build", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".tox", ".nox", ".cache", ".gradle", ".next", ".turbo", "coverage", ".DS_Store", "*.pyc",
)  # fmt: skip


def pathspecs(more: Sequence[str] = ()) -> list[str]:
    """The same for a command of Git, with a person's own patterns."""
    own = [f":(exclude,glob){pattern}" for pattern in more]
    return [f":(exclude,glob)**/{name}{end}" for name in EXCLUDED for end in ("", "/**")] + own


def is_excluded(path: str) -> bool:
    """Whether an untracked file is such a thing."""
    return any(fnmatchcase(part, name) for part in path.split("/") for name in EXCLUDED)
