"""The SQL of the store, read once from `queries.sql`: a name, a sentence, a statement."""

from os.path import dirname, join

_FOLDER = dirname(__file__)


def load_queries(path: str) -> dict[str, str]:
    """Statement by name, from blocks that begin with `-- name: NAME`; comment lines are left out."""
    with open(path, encoding="utf-8") as file:
        blocks = file.read().split("-- name: ")[1:]
    queries: dict[str, str] = {}
    for block in blocks:
        name, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        queries[name.strip()] = "\n".join(lines).strip()
    return queries


SQL = load_queries(join(_FOLDER, "queries.sql"))
