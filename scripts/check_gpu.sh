#!/usr/bin/env bash
# All checks that need a GPU, without a network, in parts that run alone: the kernels against their bounds, whole
# models, runs whose losses must agree with the CPU's, times beside PyTorch if python3 has it, a profile, and
# compute-sanitizer. Runs from an unpacked package that was made with TESTS=1, or from a build folder.
#
#   scripts/check_gpu.sh [OUT]        default: the current folder
#   PARTS=correct,steps scripts/check_gpu.sh [OUT]
#   PARTS=steps ONLY='*bf16*' scripts/check_gpu.sh [OUT]      of a part the commands whose name matches this glob
#
# Parts, in this order if PARTS is not set (seconds that a part may take; LIMIT sets another number for each):
#   first 120     devices, comera doctor, some steps of mnli-6enc in fp32 and bf16
#   correct 480   kernels, models, memory, pinned losses, resume
#   steps 300     steps of models       layers 240    single layers and look-ups      epoch 150    an epoch from text on
#   profile 150   the launches of a step as the GPU ran them; steps call by call, under nsys or ncu if there is one
#   sanitize 480  compute-sanitizer
#
# OUT gets gpu-report.md (for people), gpu-report.jsonl (everything that was measured) and gpu-logs.tar.gz (what the
# programs printed). Each is replaced after every check, and a second run adds to all three. A command that reaches a
# limit is no failure. Status: 0 if all passed, 1 if a check failed, 3 if a limit left some undone.
# COMERA_BUILD names a build folder (default: the package that contains this script).
set -uo pipefail
out=$(realpath -m "${1:-.}")
here=$(dirname "$(realpath "$0")")
bin=${COMERA_BUILD:-$here/../bin}
recipes=$here
[ -f "$recipes/pytorch_peer.py" ] || recipes=$here/../recipes
all_parts=first,correct,steps,layers,epoch,profile,sanitize
parts=${PARTS:-$all_parts}
for part in ${parts//,/ }; do
  case ,$all_parts, in
    *,"$part",*) ;;
    *) echo "check_gpu.sh: PARTS=$parts: there is no part $part; want some of $all_parts" >&2 && exit 2 ;;
  esac
done
command -v python3 > /dev/null || { echo "check_gpu.sh: the report needs python3; install it" >&2 && exit 2; }
# libcublasLt.so.13 and libcupti.so.13 may be in a folder that only Python searches.
in_wheels='import glob, sys; print(*[f for p in sys.path for f in glob.glob(p + sys.argv[1])][:1])'
for library in libcublasLt libcupti; do
  wheel=$(python3 -c "$in_wheels" "/nvidia/*/lib/$library.so.13" 2> /dev/null || true)
  [ -z "$wheel" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${wheel%/*}"
done
mkdir -p "$out"
page=$out/gpu-report.md lines=$out/gpu-report.jsonl archive=$out/gpu-logs.tar.gz
work=$(mktemp -d)
run=$(date -u +%Y-%m-%dT%H:%M:%S)
logs=$work/logs/$run
mkdir -p "$logs"
[ ! -e "$archive" ] || tar -C "$work" -xzf "$archive" ||
  { echo "check_gpu.sh: $archive cannot be read; move it away" >&2 && rm -rf "$work" && exit 2; }

# Every file is written beside its place and then moved there.
pack() {
  tar -C "$work" -czf "$archive.new" logs && mv "$archive.new" "$archive"
  counts=$(python3 "$here/gpu_report.py" page "$lines" "$page")
}
trap 'rm -rf "$work"' EXIT
trap 'pack; exit 143' TERM INT
report() { python3 "$here/gpu_report.py" "$@"; }

part=first part_end=0
begin_part() { # NAME SECONDS
  part=$1
  part_end=$((SECONDS + ${LIMIT:-$2}))
  echo "== $part"
}

# A named command with its own limit inside that of its part. With an answer, its standard output is JSON.
run_one() { # KIND ANSWER NAME SECONDS COMMAND...
  local kind=$1 answer=$2 name=$3 limit=$4 status=0 start=$SECONDS left=$((part_end - SECONDS))
  shift 4
  # shellcheck disable=SC2053 # a glob
  [[ $name == ${ONLY:-*} ]] || return 0
  local log=$logs/${name// /-}.log json=
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 2 ]; then
    report add "$lines" "$run" "$part" "$name" none 0 0 "$kind" /dev/null
  elif [ "$answer" = json ]; then
    json=$logs/${name// /-}.json
    timeout -k 5 "$limit" "$@" > "$json" 2> "$log" || status=$?
  else # a command, or an exported function
    timeout -k 5 "$limit" bash -c '"$@"' bash "$@" > "$log" 2>&1 || status=$?
  fi
  [ "$limit" -lt 2 ] ||
    report add "$lines" "$run" "$part" "$name" "$status" $((SECONDS - start)) "$limit" "$kind" "$log" ${json:+"$json"}
  pack
}
check() { run_one ours text "$@"; } # NAME SECONDS COMMAND...

ours() { # NAME OPTIONS...: comera bench
  run_one ours json "$1" 90 "$bin/comera" bench --device "$device" --json --verbose --warmup "$warmup" \
    --repetitions "$repetitions" "${@:2}"
}
theirs() { # NAME OPTIONS...: pytorch_peer.py
  [ -z "$torch" ] || run_one peer json "$1" 120 python3 "$recipes/pytorch_peer.py" --device "$device" \
    --warmup "$warmup" --repetitions "$repetitions" "${@:2}"
}

# Data for the same small run on both devices: text of words that depend on the label.
make_data() {
  awk 'BEGIN { srand(3); print "label\ttext"
    for (i = 0; i < 600; ++i) { k = int(4 * rand()); t = ""
      for (j = 0; j < 12; ++j) t = t " w" (rand() < .5 ? k * 10 + int(10 * rand()) : int(40 * rand()))
      print "c" k "\t" t } }' > "$work/train.tsv"
  { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 0 39); do echo "w$i"; done; } > "$work/vocab.txt"
}

pinned_command() { # DEVICE DTYPE OUT STEPS
  command=("$bin/comera" pretrain --model encoder-small --layers 2 --hidden 64 --heads 4 --intermediate 128 --form tt
    --rank 8 --embedding-rank 8 --task classify --data "$work/train.tsv" --text text --label label
    --tokenizer "$work/vocab.txt" --seq 32 --batch 32 --steps "$4" --seed 7 --log-every 1 --device "$1" --dtype "$2"
    -o "$3" --force --verbose)
}
pinned_run() { # DEVICE DTYPE OUT STEPS
  local command
  pinned_command "$@"
  "${command[@]}"
}

# The losses of the first step and of 30 steps agree within these relative tolerances. In fp32 both devices round in
# float, in different orders. Otherwise the tolerance is 4 u sqrt(n) (tests/models/precision_test.cpp): u = 2^-8 and
# n = 60 tensors of the activation dtype in bf16, u = 2^-11 and n = 100 factors of products in TF32.
same_losses() { # DTYPE FIRST ALL
  [ -d "$work/run-cpu-fp32" ] || pinned_run cpu fp32 "$work/run-cpu-fp32" 30 || return 1
  pinned_run cuda "$1" "$work/run-cuda-$1" 30 || return 1
  losses() { sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$work/run-$1/metrics.jsonl"; }
  paste <(losses cpu-fp32) <(losses "cuda-$1") | awk -v first="$2" -v all="$3" '
    { d = $1 - $2; if (d < 0) d = -d; r = d / $1; if (r > worst) worst = r
      if ((NR == 1 && r > first) || r > all) { print "step " NR ": " $1 " on the CPU, " $2 " on the GPU"; bad = 1 } }
    END { print NR " losses, largest relative difference " worst; exit bad || NR < 30 }'
}

# A run that is stopped and resumed ends with the same bytes as an uninterrupted run. It uses the uninterrupted run's
# recipe, which records the paths that were measured to be faster.
same_bytes_after_resume() { # DTYPE
  local command
  pinned_run cuda "$1" "$work/whole" 300 || return 1
  rm -rf "$work/stopped"
  pinned_command cuda "$1" "$work/stopped" 300
  "${command[@]}" --config "$work/whole/recipe.toml" & local pid=$!
  until [ "$(wc -l 2> /dev/null < "$work/stopped/metrics.jsonl")" -ge 5 ] || ! kill -0 $pid; do
    sleep 0.01
  done 2> /dev/null
  kill -TERM $pid 2> /dev/null
  wait $pid
  echo "stopped with status $? after $(wc -l < "$work/stopped/metrics.jsonl") of 300 steps"
  "$bin/comera" pretrain --resume "$work/stopped" --quiet > /dev/null &&
    cmp "$work/whole/model.safetensors" "$work/stopped/model.safetensors"
}

# Kernels that begin while the one before ends give the bytes of kernels that wait. The second run has the first one's
# paths.
same_bytes_when_ordered() { # DTYPE
  local command
  pinned_run cuda "$1" "$work/overlapped" 30 || return 1
  pinned_command cuda "$1" "$work/ordered" 30
  "${command[@]}" --config "$work/overlapped/recipe.toml" --launches ordered &&
    cmp "$work/overlapped/model.safetensors" "$work/ordered/model.safetensors"
}

# Values that wait in host memory keep their bits.
same_bytes_when_offloaded() {
  local command
  pinned_run cuda bf16 "$work/kept" 30 || return 1
  pinned_command cuda bf16 "$work/offloaded" 30
  "${command[@]}" --config "$work/kept/recipe.toml" --activations offload &&
    cmp "$work/kept/model.safetensors" "$work/offloaded/model.safetensors"
}

# A run that needs more memory than there is ends with one sentence, and no folder is made.
refused_for_memory() {
  local status=0
  "$bin/comera" pretrain --model mnli-6enc --form dense --task classify --data "$work/train.tsv" --text text \
    --label label --tokenizer "$work/vocab.txt" --seq 512 --batch 65536 --steps 1 --device cuda \
    -o "$work/too-large" 2> "$work/refused" || status=$?
  cat "$work/refused"
  [ "$status" = 2 ] && grep -q '\[memory\] the run needs .* are free' "$work/refused" && [ ! -e "$work/too-large" ]
}

first() {
  check devices 20 "$bin/comera" --version --device cuda
  check nvidia-smi 20 nvidia-smi -q
  for dtype in fp32 bf16; do
    run_one ours json "doctor $dtype" 60 "$bin/comera" doctor --device cuda --dtype $dtype --json --verbose
  done
  for dtype in fp32 bf16; do
    repetitions=3 warmup=1 ours "three steps $dtype" --model mnli-6enc --form tt --rank 30 --batch 32 --seq 128 \
      --dtype $dtype
  done
}

# A test case alone, under a tool of compute-sanitizer if `tool` names one. What a passed one printed comes first, what
# a failed one printed waits in a file.
one_case() { # PROGRAM CASE
  local status=0 log
  log=$(mktemp -p "$work" case.XXXXXX)
  echo "== $2" > "$log"
  timeout --foreground -k 5 200 ${tool:+"$sanitizer" --tool "$tool" --error-exitcode 9} "$bin/$1" "${2//,/\\,}" \
    >> "$log" 2>&1 || status=$?
  if [ $status = 0 ]; then
    flock "$work" cat "$log"
    rm "$log"
    return
  fi
  echo "status $status" >> "$log"
  [ ! -x "$sanitizer" ] || [ -n "${tool:-}" ] ||
    COMERA_LAUNCHES=ordered timeout --foreground -k 5 60 "$sanitizer" --tool memcheck --print-limit 3 "$bin/$1" \
      "${2//,/\\,}" 2>&1 | grep '^=' | head -n 40 >> "$log"
  mv "$log" "$log.failed"
  return 1
}

# Every test case in a process of its own, because nothing works in a process after a fault of the GPU; some processes
# side by side. A case that failed runs once more under compute-sanitizer, which names the kernel and the line.
each_case() { # PROGRAM FILTER
  local status=0 cases file
  cases=$("$bin/$1" "$2" --list-test-names-only | grep .)
  [ -n "$cases" ] || { echo "$1 has no test case $2" && return 1; }
  xargs -d '\n' -n 1 -P "$side_by_side" bash -c 'one_case "$@"' bash "$1" <<< "$cases" || status=1
  for file in "$work"/case.*.failed; do
    [ ! -e "$file" ] || { cat "$file" && rm "$file"; }
  done
  return $status
}

# Only the tests that need a GPU: the others run in every build.
correct() {
  COMERA_COLUMN='cuda gpu' check kernels 240 each_case test_kernels '*backend*,*same bytes*'
  check models 180 each_case test_models 'a step on a device*,bf16 streams*,TF32 products*,fp8 products*'
  check refused-for-memory 60 refused_for_memory
  check pinned-loss 120 same_losses fp32 1e-5 1e-2
  check pinned-loss-tf32 60 same_losses tf32 2e-2 2e-2
  check pinned-loss-bf16 60 same_losses bf16 0.12 0.12
  check resume 60 same_bytes_after_resume fp32
  check resume-bf16 60 same_bytes_after_resume bf16
  check ordered-launches 60 same_bytes_when_ordered bf16
  check offload 60 same_bytes_when_offloaded
}

steps() {
  local dtype batch
  for dtype in bf16 fp32 tf32 fp8; do
    ours "mnli-6enc 32 x 128 tt $dtype" --model mnli-6enc --form tt --rank 30 --batch 32 --seq 128 --dtype "$dtype"
  done
  ours "mnli-6enc 1 x 128 tt bf16" --model mnli-6enc --form tt --rank 30 --batch 1 --seq 128 --dtype bf16
  for batch in 32 1; do
    ours "mnli-6enc $batch x 128 tt bf16, ordered launches" --model mnli-6enc --form tt --rank 30 --batch $batch \
      --seq 128 --dtype bf16 --launches ordered
    ours "mnli-6enc $batch x 128 dense bf16" --model mnli-6enc --form dense --batch "$batch" --seq 128 --dtype bf16
  done
  theirs "mnli-6enc 32 x 128" --batch 32 --dtype bf16
  theirs "mnli-6enc 32 x 128" --batch 32 --dtype bf16 --compile
  theirs "mnli-6enc 1 x 128" --batch 1 --dtype bf16 --optimizer galore
}

layers() {
  local batch dtype tokens
  theirs "copies and products" --work rates --dtype bf16
  for batch in 32 512; do
    tokens=$((batch * 128))
    for dtype in bf16 fp32 fp8; do
      ours "linear 768x3072 at $tokens tokens tt $dtype" --linear 768x3072 --form tt --rank 30 --batch "$batch" \
        --seq 128 --dtype "$dtype"
    done
    theirs "linear 768x3072 at $tokens tokens" --work linear --batch "$batch" --dtype bf16 --compile
  done
  ours "look-up 4096 of 30522x768 tt fp32" --table 30522x768 --form tt --embedding-rank 32 --batch 32 --seq 128 \
    --dtype fp32
  theirs "look-up 4096 of 30522x768" --work lookup --embedding-rank 32 --batch 32
}

# Every sequence is full in both programs. Ours reads text; PyTorch's batches are in memory.
epoch() {
  run_one ours json "epoch mnli-6enc 128 x 128 tt bf16" 90 python3 "$recipes/time_epoch.py" "$bin/comera" \
    --device "$device" --model mnli-6enc --form tt --rank 30 --dtype bf16
  theirs "epoch mnli-6enc 128 x 128" --work epoch --batch 128 --dtype bf16 --compile --repetitions 100
}

# A line per launch (gpu_timeline.py), which scripts/cuda_cost.py --measured compares with its estimate.
timeline() { # BATCH
  COMERA_TIMELINE=$work/timeline CUDA_INJECTION64_PATH=$injection "$bin/comera" bench --device cuda --json --quiet \
    --model mnli-6enc --form tt --rank 30 --batch "$1" --seq 128 --dtype bf16 --repetitions 3 > "$work/bench" || return 1
  python3 "$here/gpu_timeline.py" "$work/timeline" "$work/bench"
}

profile() {
  local batch profiler=()
  for batch in 32 1; do
    [ ! -e "$injection" ] || check "timeline $batch x 128 tt bf16" 60 timeline $batch
  done
  if command -v nsys > /dev/null; then
    profiler=(nsys profile --stats=true --force-overwrite true --trace cuda -o "$work/nsys")
  elif command -v ncu > /dev/null; then
    profiler=(ncu --clock-control none --set basic --launch-count 400)
  else
    echo "no nsys and no ncu: the steps run without a profiler"
  fi
  for batch in 32 1; do
    check "call by call $batch x 128 tt bf16" 60 "${profiler[@]}" "$bin/comera" bench --device "$device" --quiet \
      --call-by-call --model mnli-6enc --form tt --rank 30 --batch $batch --seq 128 --dtype bf16 --warmup 1 \
      --repetitions 1
  done
}

# initcheck reads whole models: the tests of single kernels write every byte before a call. Each kernel ends before the
# next one begins, so that a tool that watches one launch at a time sees all of it.
sanitize() {
  local tool
  export COMERA_LAUNCHES=ordered tool
  if [ ! -x "$sanitizer" ]; then
    echo "there is no compute-sanitizer" > "$work/why"
    report add "$lines" "$run" "$part" compute-sanitizer none 0 0 ours "$work/why"
    return
  fi
  for tool in memcheck racecheck; do
    COMERA_COLUMN='cuda gpu' check "$tool" 240 each_case test_kernels 'tt_linear*backend*,attention*backend*'
  done
  tool=initcheck check initcheck 180 each_case test_models 'a step on a device: encoders*'
}

commit=$(cat "$here/commit" 2> /dev/null || git -C "$here" rev-parse HEAD 2> /dev/null || echo unknown)
queried=name,driver_version,clocks.sm,clocks.mem,power.limit,memory.total
torch=$(python3 -c 'import torch; print(torch.__version__ if torch.cuda.is_available() else "")' 2> /dev/null || true)
report facts "$lines" "$run" "commit=$commit" "parts=$parts" \
  "GPU=$(nvidia-smi --query-gpu=$queried --format=csv,noheader 2> /dev/null | head -n 1 || echo unknown)" \
  "program=$("$bin/comera" --version --device cuda 2>&1 | tr '\n' ' ')" \
  "PyTorch=${torch:-not found, not measured}"
make_data
device=cuda warmup=5 repetitions=20
sanitizer=$(command -v compute-sanitizer || echo "$here/sanitizer/compute-sanitizer")
side_by_side=$(nproc)
[ "$side_by_side" -le 12 ] || side_by_side=12
injection=$(realpath -m "$here/libgpu_timeline.so")
[ -e "$injection" ] || injection=$(realpath -m "$bin/libgpu_timeline.so")
export COMERA_REQUIRE_GPU=1 bin work here sanitizer side_by_side injection
export -f one_case each_case timeline
export -f pinned_command pinned_run same_losses same_bytes_after_resume same_bytes_when_ordered refused_for_memory
export -f same_bytes_when_offloaded
declare -A limits=([first]=120 [correct]=480 [steps]=300 [layers]=240 [epoch]=150 [profile]=150 [sanitize]=480)
for one in ${parts//,/ }; do
  begin_part "$one" "${limits[$one]}"
  "$one"
done
pack
read -r failed stopped left <<< "$counts"
echo "$failed checks failed, $stopped stopped at their limit, $left not run; see $page"
[ "$failed" = 0 ] || exit 1
[ "$((stopped + left))" = 0 ] || exit 3
