#!/usr/bin/env bash
# Runs the example on a little repository of its own, kills it half-way, resumes it, and shows what happened.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD
demo=${PERDURE_DEMO_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/perdure-demo-XXXXXX")}
mkdir -p "$demo"
export PERDURE_STATE_HOME="$demo/state"
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@localhost GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@localhost

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1. A little repository with a failing test: $demo/repo"
cp -R "$here/examples/ship-a-change" "$demo/repo"
cd "$demo/repo"
git init -q -b main . && git add . && git commit -qm "A shop with a mistake"
git log --oneline

say "2. perdure run -d workflow.fabro --goal \"Ship the discount fix\""
run=$(perdure run -d workflow.fabro --goal "Ship the discount fix")
echo "$run"

say "3. Half-way, kill -9: the agent is at work"
dir=$(echo "$demo"/state/runs/*-"$run")
until grep -q '"event":"step.started","step":"fix"' "$dir/progress.jsonl" 2>/dev/null; do sleep 0.05; done
pid=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p;s/.*"pid":\([0-9]*\).*/\1/p' "$demo/state/launchers/$run.json" | head -1)
kill -9 "$pid"
echo "killed $pid"
perdure ps

say "4. perdure resume $run: finished steps are not run again"
perdure resume "$run" </dev/null || test $? -eq 4

say "5. It asks a person. perdure answer $run A, then perdure resume $run"
perdure answer "$run" A
perdure resume "$run" </dev/null

say "6. What happened: perdure show"
perdure show "$run"

say "7. What it changed: perdure diff --stat"
perdure diff "$run" --stat

say "8. The branch it left: one commit a node"
git log --oneline --graph "perdure/run/$run"

say "9. Its files: $dir"
(cd "$dir" && find . -maxdepth 2 | sort | sed 's|^\./|  |')
