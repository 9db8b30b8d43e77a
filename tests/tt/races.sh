#!/usr/bin/env bash
# Checks with ThreadSanitizer that calls which run at the same time (lib/tt/parallel.h) share no data without a lock.
#
#   tests/tt/races.sh BUILD
set -euo pipefail
"$(dirname "$0")/../../scripts/recent.py" lib/tt kernels/host tests/tt
cmake --build "$1" --target test_tt_races > "$1/tt_races.log" 2>&1 || { tail -n 60 "$1/tt_races.log" && exit 1; }
test=$1/test_tt_races
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"
# ThreadSanitizer exits before the first line if the system randomises addresses over more bits than it supports.
"$test" --help > /dev/null 2>&1 || [ $? != 66 ] || { echo "SKIPPED: ThreadSanitizer does not start here" && exit 77; }

# Checks that ThreadSanitizer detects a known race.
if "$test" 'a race between two calls shows' > /dev/null 2>&1 || [ $? != 66 ]; then
  echo "a race between two calls was not seen" && exit 1
fi
"$test" '~a race between two calls shows' 2>&1 | tail -n 60
