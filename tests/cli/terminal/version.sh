#!/usr/bin/env bash
# comera --version: content and start-up time; the three messages about CUDA, with stub libraries as driver and backend.
. "$(dirname "$0")/../expect.sh"

run "$COMERA" --version
expect_exit 0
expect_out '^comera [0-9]+\.[0-9]+\.[0-9]+$'
expect_out '^  commit +([0-9a-f]{12}|unknown)$'
expect_out '^  compiler +(GNU|Clang)'
expect_out '^  cpu +.*processors'
expect_out '^  instruction sets .*v3'
expect_out '^  blas +OpenBLAS .*libxsmm'
expect_no_err

run "$COMERA" --version --json
expect_exit 0
expect_json "d['schema_version'] == 1 and 'v3' in d['cpu']['instruction_sets']"

# Start-up below 10 ms: the best of 20, so that a busy machine does not fail it.
cat >time.py <<'PY'
import subprocess, sys, time
best = 1e9
for _ in range(20):
    start = time.perf_counter()
    subprocess.run([sys.argv[1], "--version"], stdout=subprocess.DEVNULL, check=True)
    best = min(best, time.perf_counter() - start)
print(f"{1e3 * best:.1f} ms")
sys.exit(best > 0.010 * float(sys.argv[2]))
PY
# Programs with sanitizers start slowly.
slower=1
if grep -qa '__asan_init\|__tsan_init' "$COMERA"; then slower=50; fi
run python3 time.py "$COMERA" "$slower"
expect_exit 0

program=bin/comera
mkdir bin lib && cp "$COMERA" "$program"
run "$program" --version --device cuda
expect_exit 0
expect_out '^built without CUDA: .*--device cpu'

if command -v cc >/dev/null; then
  : >lib/libcomera_cuda.so
  export LD_LIBRARY_PATH=$work/driver
  mkdir driver
  # cuInit returns 100 without a GPU, 35 if the driver is too old.
  driver() {
    cat >driver.c <<C
#include <stddef.h>
#include <string.h>
int cuInit(unsigned f) { return $1; }
int cuDeviceGetCount(int* n) { *n = $2; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return 0; }
int cuDeviceGetName(char* s, int n, int d) { strncpy(s, "Example Card", n); return 0; }
int cuDeviceTotalMem_v2(size_t* b, int d) { *b = (size_t)24 << 30; return 0; }
int cuDeviceGetAttribute(int* v, int a, int d) { *v = a == 75 ? 9 : 0; return 0; }
C
    cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o driver/libcuda.so.1 driver.c
  }
  driver 35 0
  run "$program" --version --device cuda
  expect_out '^no driver: .*install'
  driver 100 0
  run "$program" --version --device cuda
  expect_out '^no device: '
  driver 0 0
  run "$program" --version --device cuda
  expect_out '^no device: '
  driver 0 2
  run "$program" --version --device cuda
  expect_exit 0
  expect_out '^cuda:0  Example Card, 24.0 GiB, compute capability 9.0$'
  expect_out '^cuda:1  Example Card'
  run "$program" --version --device cuda --json
  expect_json "d['cuda']['available'] and d['cuda']['devices'][1]['bytes'] == 24 << 30"
fi
finish
