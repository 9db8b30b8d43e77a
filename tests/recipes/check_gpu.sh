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
  *" bench --device cuda --json "*) exec cat "$folder/answer.json" ;;
  *" --model mnli-6enc "*) echo "error: no epoch here" >&2 && exit 1 ;;
esac
words=()
for word in "\$@"; do
  case \$word in cuda) word=cpu ;; tf32 | bf16) word=fp32 ;; esac
  words+=("\$word")
done
exec "$COMERA" "\${words[@]}"
STUB
printf '#!/bin/sh\nexit 0\n' > "$folder/test_kernels"
printf '#!/bin/sh\necho "a model differs"; exit 3\n' > "$folder/test_models"
# A python3 without a usable PyTorch, on every machine.
mkdir "$folder/programs"
printf '#!/bin/sh\ncase $1 in -c) exit 1 ;; esac\nexec %s "$@"\n' "$(command -v python3)" > "$folder/programs/python3"
printf '#!/bin/sh\nexit 0\n' > "$folder/programs/compute-sanitizer"
chmod +x "$folder"/comera "$folder"/test_* "$folder"/programs/*
cat > "$folder/answer.json" << 'JSON'
{"peak_gflops": 1000, "copy_gb_per_s": 1000, "rows": [
  {"work": "step", "median_ms": 3, "min_ms": 3, "max_ms": 3, "gflops": null, "peak_bytes": 1048576,
   "joules": 0.5, "launches": 490},
  {"work": "tokens", "median_ms": 1, "min_ms": 1, "max_ms": 1, "gflops": 1, "peak_bytes": null,
   "joules": 0.2, "moved_bytes": 600000000}]}
JSON

report=$folder/out/gpu-report.md
status=0
PATH=$folder/programs:$PATH COMERA_BUILD=$folder "$scripts/check_gpu.sh" "$folder/out" > "$folder/log" 2>&1 || status=$?
wants() {
  grep -qE -- "$1" "$report" || { echo "check_gpu.sh: no line like: $1" && cat "$folder/log" && exit 1; }
}
[ "$status" = 1 ] || { echo "check_gpu.sh ended with $status" && cat "$folder/log" && exit 1; }
for name in kernels pinned-loss pinned-loss-tf32 pinned-loss-bf16 resume resume-bf16 memcheck racecheck initcheck; do
  wants "^- $name: passed"
done
wants '^- models: FAILED \(status 3\)'
wants '^a model differs$'
wants '^1 checks failed\.$'
wants '^PyTorch: not found, not measured\.'
wants '^\| mnli-6enc 32 x 128 tt bf16 \| comera \| step \| 3\.000 \| 0\.500 \| 1 \| 490 \|$'
wants '^\| epoch mnli-6enc 128 x 128 tt bf16 \| failed: .*no epoch here'
wants '^\| linear 768x3072 at 4096 tokens tt bf16, tokens \| roofline, share of the bound \| 60 % \| 50 % \| yes \|$'
wants '^\| linear 768x3072 at 65536 tokens tt bf16, tokens \| roofline, share of the bound \| 60 % \| 70 % \| no \|$'
wants '^\| mnli-6enc 32 x 128 tt bf16, step \| pytorch dense bf16 compiled, time \| not measured \| 2.5x \|  \|$'
python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$folder/out/gpu-report.jsonl"
grep -q '^30 losses, largest relative difference' "$folder/out/gpu-pinned-loss.log"
# The signal stopped the run before its end.
grep -q '^stopped with status 143 after [0-9]* of 300 steps' "$folder/out/gpu-resume.log"

# With BUDGET=0 no part is started, and the log reports it.
PATH=$folder/programs:$PATH COMERA_BUILD=$folder BUDGET=0 "$scripts/check_gpu.sh" "$folder/out" > "$folder/log" 2>&1
wants '^- kernels: not run, no time was left$'
wants '^\| mnli-6enc 32 x 128 tt bf16 \| not run, no time was left'
