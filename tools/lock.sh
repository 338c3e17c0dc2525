#!/usr/bin/env bash
# Writes requirements/run.lock and requirements/dev.lock from pyproject.toml. Needs `uv`; nothing else here does.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="$(command -v uv || echo .venv/bin/uv)"

compile() { # OUTPUT [ARGUMENTS...]
    local output=$1
    shift
    "$uv" pip compile pyproject.toml "$@" --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header --no-annotate --quiet --upgrade -o "$output"
}

compile requirements/run.lock
compile requirements/dev.lock --group dev
if grep -nE '[a-z]+://|--(extra-)?index|--find-links' requirements/*.lock; then
    echo "A lock file must not say where packages come from." >&2
    exit 1
fi
