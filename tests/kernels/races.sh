#!/usr/bin/env bash
# No thread of a CUDA block touches what another one writes without a barrier between them, in the cases of every op and in the fused passes.
#
#   tests/kernels/races.sh BUILD
set -euo pipefail
test=$1/test_kernels_races
export COMERA_COLUMN='cuda on host' TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"
# Where addresses are drawn from more than ThreadSanitizer knows, it ends before the first line.
"$test" --help > /dev/null 2>&1 || [ $? != 66 ] || { echo "SKIPPED: ThreadSanitizer does not start here" && exit 77; }

# A watcher that sees nothing would find no race either.
if "$test" 'cuda on host: a missing barrier shows' > /dev/null 2>&1 || [ $? != 66 ]; then
  echo "a missing barrier was not seen" && exit 1
fi
"$test" '*within the derived bound*,tt_linear: the fused*,attention in bf16*rows apart*,cuda on host: sums*' 2>&1 | tail -n 60
