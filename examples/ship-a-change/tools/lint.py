"""A lint of its own, so that the example needs nothing but Python: lines are short, and end without spaces."""

import pathlib
import sys

found = [
    f"{path}:{number}: {problem}"
    for path in sorted(pathlib.Path().glob("shop/*.py"))
    for number, line in enumerate(path.read_text().split("\n"), 1)
    for problem in (["too long"] if len(line) > 110 else []) + (["ends with spaces"] if line != line.rstrip() else [])
]
print("\n".join(found) or "lint: nothing found")
sys.exit(bool(found))
