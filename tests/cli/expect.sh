# shellcheck shell=bash
# Sourced by the scripts of this folder. A script runs the program with `run`, states expectations with `expect_...`,
# and ends with `finish`. Every failed expectation is printed with the command, its exit code and its output.
#
#   . "$(dirname "$0")/expect.sh"
#   run "$COMERA" inspect missing
#   expect_exit 2
#   expect_err 'missing: no such file'
#   finish
set -u
: "${COMERA:?names the program to test}"
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export tests
work=$(mktemp -d)
trap 'chmod -R u+rwX "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
last=

# Runs a command; stores its exit code in $code, stdout in $work/.out, stderr in $work/.err.
run() {
  last="$*"
  "$@" >"$work/.out" 2>"$work/.err" </dev/null
  code=$?
}

# The same, with the first argument as stdin.
run_with() {
  local input=$1
  shift
  last="$*"
  printf '%s' "$input" | "$@" >"$work/.out" 2>"$work/.err"
  code=$?
}

fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n  command: %s\n  exit code: %s\n' "$1" "$last" "${code:-none}"
  sed 's/^/  stdout: /' "$work/.out" | head -n 20
  sed 's/^/  stderr: /' "$work/.err" | head -n 20
}

# A misspelt expectation fails. Bash calls this in a process of its own, so a file remembers it.
command_not_found_handle() {
  printf '%s: command not found\n' "$1" | tee -a "$work/.unknown" >&2
  return 127
}

expect_exit() { [ "$code" = "$1" ] || fail "exit code $1"; }
expect_out() { grep -qE -- "$1" "$work/.out" || fail "stdout matches '$1'"; }
expect_err() { grep -qE -- "$1" "$work/.err" || fail "stderr matches '$1'"; }
expect_no_out() { [ ! -s "$work/.out" ] || fail "nothing on stdout"; }
expect_no_err() { [ ! -s "$work/.err" ] || fail "nothing on stderr"; }
expect_file() { [ -e "$1" ] || fail "$1 exists"; }
expect_no_file() { [ ! -e "$1" ] || fail "$1 does not exist"; }
expect_equal() { [ "$1" = "$2" ] || fail "'$1' equals '$2'"; }
expect_same_bytes() { cmp -s "$1" "$2" || fail "$1 and $2 are the same bytes"; }

# stdout is one JSON object `d` for which the Python expression is true.
expect_json() {
  python3 -c "import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not ($1))" "$work/.out" 2>>"$work/.err" ||
    fail "JSON: $1"
}
# stdout is one JSON object per line; `d` is the list of them.
expect_jsonl() {
  python3 -c "import json, sys; d = [json.loads(line) for line in open(sys.argv[1])]; sys.exit(not ($1))" "$work/.out" \
    2>>"$work/.err" || fail "JSONL: $1"
}

# A usage error: exit code 2, one line on stderr that matches, nothing on stdout.
expect_refused() {
  expect_exit 2
  expect_err "$1"
  expect_no_out
  [ "$(wc -l <"$work/.err")" = 1 ] || fail "one line on stderr"
}

# The command is refused and leaves no folder: MESSAGE VERB ARGUMENTS...
run_refused() {
  local message=$1
  shift
  run "$COMERA" "$@" -o new
  expect_refused "$message"
  expect_no_file new
}

# The bytes of all tensors of a weights file, without the header, which has the time of the run.
tensors_of() {
  python3 -c "
import hashlib, sys
data = open(sys.argv[1], 'rb').read()
print(hashlib.sha256(data[8 + int.from_bytes(data[:8], 'little'):]).hexdigest())" "$1"
}

# change_byte FILE PATTERN: another byte near the end of the first tensor whose name matches, a shell pattern.
change_byte() {
  python3 - "$@" <<'CHANGE'
import fnmatch, json, struct, sys
path, pattern = sys.argv[1:]
data = bytearray(open(path, 'rb').read())
size = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + size])
name = next(name for name in header if fnmatch.fnmatchcase(name, pattern))
data[8 + size + header[name]['data_offsets'][1] - 4] ^= 64
open(path, 'wb').write(data)
CHANGE
}

finish() {
  [ -e "$work/.unknown" ] && fail "no unknown command: $(sort -u "$work/.unknown")"
  [ "$failures" = 0 ] && exit 0
  echo "$failures expectations failed"
  exit 1
}
