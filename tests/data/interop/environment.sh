# shellcheck shell=bash
# Sourced by the comparisons with packages of PyPI.

skip() { echo "SKIPPED: $1" >&2 && exit 77; }

# use_packages FOLDER MODULES PACKAGE...: sets `python` to the interpreter of the virtual environment FOLDER, which is
# made if it cannot import MODULES ("numpy, PIL"). Exits with 77 without network.
use_packages() {
  local folder=$1 modules=$2
  shift 2
  python=$folder/bin/python
  ! "$python" -c "import $modules" 2> /dev/null || return 0
  python3 -m venv "$folder" || skip "python3 cannot make a virtual environment"
  "$python" -m pip install -q --disable-pip-version-check "$@" || skip "PyPI does not answer or lacks $*"
}
