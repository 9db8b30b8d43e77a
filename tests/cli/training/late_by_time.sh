#!/usr/bin/env bash
# A run that a time ends: ranks fall by scheduled cuts in its last third, and steps remain after the target is met.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

# A fast machine makes 60,000 steps. Without wrong labels the loss would fall to zero, where AdamW at a constant rate
# diverges, and where a few odd steps decide the importances, so that a cut could remove what the model needs.
{
  cat train.tsv
  sed -n '2,21 { s/^red/blue/; t keep; s/^green/red/; t keep; s/^blue/green/; : keep; p }' train.tsv
} >noisy.tsv
run "$COMERA" pretrain "${model[@]}" --form tt --rank 8 --tokenizer vocab.txt --seq 8 --batch 4 --quiet \
  "${columns[@]}" --data noisy.tsv --dev dev.tsv --schedule constant --max-time 6s --target-fraction 0.3 -o timed
expect_exit 0
run python3 - timed/metrics.jsonl << 'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
at = {line["event"]: line for line in lines if "event" in line}
cuts = [line for line in lines if line.get("cut", 0) > 0]
begin, met = at["late stage begins"]["step"], at["target enforced"]["step"]
last = max(line["step"] for line in lines)
print(begin, [(line["step"], line["cut"]) for line in cuts], met, last)
assert len(cuts) >= 4, "the target is met in several cuts"
assert begin < met < last, "steps remain"
END
expect_exit 0
finish
