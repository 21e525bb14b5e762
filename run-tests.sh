#!/usr/bin/env bash
# Sets up a test environment (first time only) and runs every check: format, lint, types, import layers, tests.
# PLANNER_TEST_VENV chooses another folder than .venv-tests; arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. deploy/venv.sh
venv=${PLANNER_TEST_VENV:-.venv-tests}
make_venv "$venv" "[dev]"
bin=$(cd "$venv/bin" && pwd)
say() { printf '\n== %s\n' "$1"; }
say "ruff format" && "$bin/ruff" format --check .
say "ruff lint" && "$bin/ruff" check .
say "mypy --strict" && "$bin/mypy"
say "import layers" && "$bin/lint-imports"
# Two workers on two cores: a linear algebra library that starts threads of its own beside them makes the fits ten times slower.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
say "tests" && "$bin/python" -m pytest -n 2 --dist loadgroup -m "not gpu and not benchmark" "$@"
