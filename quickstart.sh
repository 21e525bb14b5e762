#!/usr/bin/env bash
# Sets up the planner in .venv (first time only) and runs it: `bash quickstart.sh` answers the main job,
# `bash quickstart.sh ARGS…` is `planner ARGS…`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(cd "$here" && . deploy/venv.sh && make_venv .venv "")
if [ $# -eq 0 ]; then
  set -- recommend --model 7b --mode inference
fi
exec "$here/.venv/bin/planner" "$@"
