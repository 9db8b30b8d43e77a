#!/usr/bin/env bash
# Checks with ThreadSanitizer that no thread of a CUDA block accesses data of another thread without a barrier, in the
# cases of every op and in the fused kernels.
#
#   tests/kernels/races.sh BUILD
set -euo pipefail
"$(dirname "$0")/../../scripts/recent.py" kernels tests/kernels cmake/CudaEmulator.cmake
cmake --build "$1" --target test_kernels_races > "$1/races.log" 2>&1 || { tail -n 60 "$1/races.log" && exit 1; }
test=$1/test_kernels_races
export COMERA_COLUMN='cuda emulator' TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"
# ThreadSanitizer exits before the first line if the system randomises addresses over more bits than it supports.
"$test" --help > /dev/null 2>&1 || [ $? != 66 ] || { echo "SKIPPED: ThreadSanitizer does not start here" && exit 77; }

# Checks that ThreadSanitizer detects a known race.
if "$test" 'cuda emulator: a missing barrier shows' > /dev/null 2>&1 || [ $? != 66 ]; then
  echo "a missing barrier was not seen" && exit 1
fi
cases='*within the derived bound*,tt_linear: the fused*,tt_linear: two teams*,attention in bf16*rows apart*'
cases+=',*TTM tables*,cuda emulator: sums*,late_sums: later*'
"$test" "$cases" 2>&1 | tail -n 60
