#!/usr/bin/env bash
# Builds the fuzz targets and runs each for SECONDS_EACH (default 3). The inputs stay in BUILD/corpus for the next run.
#   tests/fuzz/run.sh [BUILD_FOLDER] [SECONDS_EACH] [TARGET...]
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source_folder/build/fuzz}
seconds=${2:-3}
shift $(($# < 2 ? $# : 2))

compiler=$(command -v clang++-19 || command -v clang++ || true)
if [ -z "$compiler" ]; then
  echo "no clang++: the readers are not fuzzed; install clang-19 and libclang-rt-19-dev" >&2
  exit 77
fi
# The build around this one has a SentencePiece already.
shared=()
prefix=$(sed -n 's/^COMERA_SENTENCEPIECE:PATH=//p' "$(dirname "$build")/CMakeCache.txt" 2>/dev/null || true)
[ -z "$prefix" ] || shared=("-DCOMERA_SENTENCEPIECE=$prefix")
cmake -S "$source_folder" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_C_COMPILER="${compiler/clang++/clang}" \
  "${shared[@]}" -DCOMERA_FUZZ=ON -DCMAKE_BUILD_TYPE=Release >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" >"$build.log" 2>&1 || { tail -50 "$build.log"; exit 1; }
python3 "$source_folder/tests/fuzz/make_seeds.py" "$build/corpus"

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for path in "$source_folder"/tests/fuzz/fuzz_*.cpp; do targets+=("$(basename "$path" .cpp)"); done
fi
for target in "${targets[@]}"; do
  log="$build/$target.log"
  if ! "$build/$target" "$build/corpus/$target" -dict="$build/corpus/$target.dict" -max_total_time="$seconds" \
    -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
    -artifact_prefix="$build/crash-$target-" -print_final_stats=1 >"$log" 2>&1; then
    grep -A25 -E "ERROR|runtime error|deadly" "$log" || tail -20 "$log"
    echo "$target failed; the input is $build/crash-$target-*"
    exit 1
  fi
  # Inputs of megabytes once each: time and memory must grow with their size, not faster. The longest takes 16 s on a
  # quiet machine.
  for large in "$build/corpus/large/$target"/*; do
    [ -e "$large" ] || continue
    if ! "$build/$target" -timeout=120 -rss_limit_mb=3072 "$large" >"$log.large" 2>&1; then
      grep -A25 -E "ERROR|runtime error|deadly" "$log.large" || tail -20 "$log.large"
      echo "$target failed; the input is $large"
      exit 1
    fi
  done
  echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
done
