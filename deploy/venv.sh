# Sourced by quickstart.sh and run-tests.sh: finds a Python, makes a virtual environment, installs this checkout into it.
# Needs bash, git and Python 3.11 or newer with venv; no root. Says in one line what is missing.

fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 4
}

# Whether a program is a Python that is new enough. Shims that do not answer are not.
suits() {
  "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# $PYTHON if set, else the first suitable interpreter on the PATH.
find_python() {
  local name
  if [ -n "${PYTHON:-}" ]; then
    suits "$PYTHON" && command -v "$PYTHON"
    return
  fi
  for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
    if suits "$name"; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

# Tables edited since the shipped snapshot was made from them: make it anew, where that may be written.
publish_tables() {
  local snapshot=pricing/tables/snapshot-0.sqlite
  [ -w "${snapshot%/*}" ] || return 0
  if [ ! -f "$snapshot" ] || [ -n "$(find pricing -newer "$snapshot" \( -name '*.csv' -o -name '*.py' \) -print -quit)" ]; then
    "$1/bin/python" -m pricing.publish >/dev/null || fail "the price tables could not be published as a snapshot"
    touch "$snapshot"
  fi
}

# What an environment made by PYTHON with EXTRAS is made from.
stamp_of() {
  printf '%s' "$("$1" -c 'import sys; print(sys.version.split()[0])') $2 $PWD $(cat pyproject.toml constraints.txt hatch_build.py | cksum)"
}

# make_venv DIR EXTRAS: DIR holds this checkout, editable, with the pinned versions. Does nothing when it is already so;
# an interrupted or outdated environment is made anew.
make_venv() {
  local dir=$1 extras=$2 python stamp log
  case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
  # The environment's own Python serves as long as it works: another user's PATH may have another one.
  if [ -z "${PYTHON:-}" ] && suits "$dir/bin/python" && [ "$(cat "$dir/.planner-stamp" 2>/dev/null)" = "$(stamp_of "$dir/bin/python" "$extras")" ]; then
    publish_tables "$dir"
    return 0
  fi
  [ -z "${PYTHON:-}" ] || suits "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11 or newer; give another, or unset it"
  python=$(find_python) || fail "Python 3.11 or newer is missing (set PYTHON=/path/to/python3 if it is installed elsewhere)"
  stamp=$(stamp_of "$python" "$extras")
  if [ -x "$dir/bin/python" ] && [ "$(cat "$dir/.planner-stamp" 2>/dev/null)" = "$stamp" ]; then
    publish_tables "$dir"
    return 0
  fi
  [ ! -e "$dir" ] || [ -w "$dir" ] || fail "$dir is outdated and belongs to somebody else; run ${0##*/} as its owner, or in a copy of your own"
  [ -w . ] || fail "$PWD cannot be written, which setting up needs; use a copy of your own"
  "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "the venv module of $python is missing; on Debian or Ubuntu: apt-get install python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
  printf 'Setting up %s (once, about a minute) ...\n' "$dir" >&2
  rm -rf "$dir" 2>/dev/null || fail "$dir cannot be replaced; remove it, or use a copy of your own"
  "$python" -m venv "$dir" || fail "could not make a virtual environment in $dir"
  log="$dir/install.log"
  "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --constraint constraints.txt --editable ".$extras" >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "installing the Python packages failed (is a package index reachable?); the whole log is in $log"
  }
  printf '%s\n' "$stamp" >"$dir/.planner-stamp"
}
