#!/usr/bin/env bash
# Runs scripts/check_gpu.sh completely on a machine without a GPU: --device cuda becomes the CPU, benches print stored
# answers, and the programs that need a GPU pass or fail at once.
set -euo pipefail
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat > "$folder/comera" << STUB
#!/usr/bin/env bash
case " \$* " in
  *" bench --device cuda --json "*)
    echo 'tt_linear_forward bf16 4096 x 768 -> 3072/32: fused 0.021 ms, library 0.034 ms: fused' >&2
    exec cat "$folder/answer.json" ;;
  *" bench "*" --call-by-call "*)
    exec "$COMERA" bench --call-by-call --linear 64x64 --rank 8 --batch 1 --seq 16 --warmup 1 --repetitions 1 --quiet ;;
  *" --model mnli-6enc --form tt "*) echo "error: no epoch here" >&2 && exit 1 ;;
esac
words=()
for word in "\$@"; do
  case \$word in cuda) word=cpu ;; tf32 | bf16) word=fp32 ;; offload) word=keep ;; esac
  words+=("\$word")
done
exec "$COMERA" "\${words[@]}"
STUB
cat > "$folder/test_kernels" << 'STUB'
#!/bin/sh
case " $* " in *" --list-test-names-only "*) echo 'a kernel, every backend' && exit ;; esac
[ "$1" = 'a kernel\, every backend' ] || exit 5
printf 'bound 0.125 norm_forward cuda gpu: K=3 M=4\nbound 0.875 rotary cuda gpu: T=5\n'
STUB
cat > "$folder/test_models" << 'STUB'
#!/bin/sh
case " $* " in *" --list-test-names-only "*) printf 'a model\nanother model\n' && exit ;; esac
[ "$1" != 'a model' ] || { echo "a model differs" && exit 3; }
STUB
# A python3 without a usable PyTorch, on every machine.
mkdir "$folder/programs"
printf '#!/bin/sh\ncase $1 in -c) exit 1 ;; esac\nexec %s "$@"\n' "$(command -v python3)" > "$folder/programs/python3"
printf '#!/bin/sh\n[ -z "$SLOW" ] || exec sleep 30\n' > "$folder/programs/compute-sanitizer"
printf '#!/bin/sh\necho "a GPU of the rehearsal"\n' > "$folder/programs/nvidia-smi"
chmod +x "$folder"/comera "$folder"/test_* "$folder"/programs/*
cat > "$folder/answer.json" << 'JSON'
{"peak_gflops": 1000, "copy_gb_per_s": 1000, "rows": [
  {"work": "step", "median_ms": 3, "min_ms": 3, "max_ms": 3, "gflops": null, "peak_bytes": 1048576,
   "joules": 0.5, "launches": 490},
  {"work": "norm_forward", "shape": "4096 x 768", "calls": 13, "median_ms": 0.25},
  {"work": "tokens", "median_ms": 1, "min_ms": 1, "max_ms": 1, "gflops": 1, "peak_bytes": null,
   "joules": 0.2, "moved_bytes": 600000000}]}
JSON

out=$folder/out report=$folder/out/gpu-report.md
fail() { echo "check_gpu.sh: $*" && cat "$folder/log" && exit 1; }
run() { # [NAME=VALUE...]: sets status
  status=0
  env PATH="$folder/programs:$PATH" COMERA_BUILD="$folder" SLOW= "$@" "$scripts/check_gpu.sh" "$out" \
    > "$folder/log" 2>&1 || status=$?
}
wants() { grep -qE -- "$1" "$report" || fail "no line like: $1"; }
kept() { tar -xzOf "$out/gpu-logs.tar.gz" --wildcards "$1" > "$folder/kept" || fail "no log $1"; }

# A reader finds whole files at any instant.
whole() {
  [ ! -e "$out/gpu-report.jsonl" ] || python3 -c 'import json, sys; [json.loads(x) for x in open(sys.argv[1])]' \
    "$out/gpu-report.jsonl" || return 1
  [ ! -e "$out/gpu-logs.tar.gz" ] || tar -tzf "$out/gpu-logs.tar.gz" > /dev/null || return 1
}
(until [ -e "$folder/ended" ] || [ ! -d "$folder" ]; do # without a folder the test has failed
  whole || touch "$folder/torn"
  sleep 0.2
done) 2> /dev/null &
run
[ "$status" = 1 ] || fail "ended with $status"
for name in devices nvidia-smi 'doctor bf16' 'three steps bf16' kernels refused-for-memory pinned-loss pinned-loss-tf32 \
  pinned-loss-bf16 resume resume-bf16 ordered-launches offload 'call by call 1 x 128 tt bf16' memcheck racecheck initcheck; do
  wants "^- $name: passed"
done
wants '^- models: FAILED \(status 1\)'
wants '^a model differs$'
wants '^- PyTorch: not found, not measured'
wants '^- epoch mnli-6enc 128 x 128 tt bf16: FAILED'
wants 'no epoch here'
wants '^2 checks failed, 0 stopped at their limit, 0 not run\.$'
wants '^\| mnli-6enc 32 x 128 tt bf16 \| comera \| step \| 3\.000 \| 0\.500 \| 1 \| 490 \|$'
wants '^\| norm_forward \| 4096 x 768 \| 13 \| 0\.25 \|'
# A cache may hold the bytes of a small call: then it has no share of the bound.
wants '^\| norm_backward \| 512 x 768 \| [0-9]+ \| [0-9.e+]+ \| [0-9.e+-]* \|$'
wants '^- tt_linear_forward bf16 4096 x 768 -> 3072/32: fused 0\.021 ms, library 0\.034 ms: fused$'
wants '^- 0\.875 rotary cuda gpu: T=5$'
wants '^\| linear 768x3072 at 4096 tokens tt bf16, tokens \| roofline, share of the bound \| 60 % \| 50 % \| yes \|$'
wants '^\| linear 768x3072 at 65536 tokens tt bf16, tokens \| roofline, share of the bound \| 60 % \| 70 % \| no \|$'
wants '^\| mnli-6enc 32 x 128 tt bf16, step \| pytorch dense bf16 compiled, time \| not measured \| 2.5x \|  \|$'
[ "$(cd "$out" && echo *)" = 'gpu-logs.tar.gz gpu-report.jsonl gpu-report.md' ] || fail "other files in $out"
kept '*/pinned-loss.log' && grep -q '^30 losses, largest relative difference' "$folder/kept"
kept '*/resume.log' && grep -q '^stopped with status 143 after [0-9]* of 300 steps' "$folder/kept" # before its end
kept '*/mnli-6enc-1-x-128-tt-bf16.json' && cmp "$folder/kept" "$folder/answer.json"

# A second run adds. A part that reaches its limit did not fail.
lines=$(wc -l < "$out/gpu-report.jsonl")
sleep 1
run PARTS=sanitize LIMIT=3 SLOW=1
[ "$status" = 3 ] || fail "with a limit it ended with $status"
wants '^- memcheck: stopped at its limit of [23] s, which is not a failure$'
wants '^- initcheck: not run, no time was left$'
wants '^0 checks failed, 1 stopped at their limit, 2 not run\.$'
wants '^2 checks failed, 0 stopped at their limit, 0 not run\.$'
[ "$(grep -c '^## Run ' "$report")" = 2 ] || fail "there are not two runs in the report"
[ "$(wc -l < "$out/gpu-report.jsonl")" = $((lines + 4)) ] || fail "the second run did not add its lines"
kept '*/resume.log' && kept '*/memcheck.log'
touch "$folder/ended"
wait
[ ! -e "$folder/torn" ] || fail "a file was not whole while the script ran"

run PARTS=first ONLY='@(doctor fp32|devices)'
wants '^0 checks failed, 0 stopped at their limit, 0 not run\.$'
[ "$status $(grep -c '^- .*: passed' "$folder/log")" = '0 2' ] || fail "ONLY does not select two commands"

run PARTS=correct,fast
[ "$status" = 2 ] || fail "accepts an unknown part"
grep -q 'there is no part fast; want some of first,correct' "$folder/log"
