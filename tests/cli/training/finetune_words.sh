#!/usr/bin/env bash
# Language models that learn a teacher's token logits: masked tokens and the next token; refused calls.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

llama=(--model llama-6m --task clm --layers 2 --hidden 32 --heads 4 --key-heads 2 --intermediate 64 --positions 16)
corpus=(--data corpus.txt --dev corpus.txt)
go=(--seq 8 --batch 2 --steps 2 --save-every 2 --threads 2 --dropout 0 --lr 0 --lr-cores 0 --log-every 1
  --seed 3 --quiet)
pretrain() {  # pretrain NAME OPTION...
  local name=$1
  shift
  run "$COMERA" pretrain "$@" "${words[@]}" "${corpus[@]}" -o "$name"
  expect_exit 0
}
pretrain masked "${model[@]}" --task mlm --form dense
pretrain masked-tt "${model[@]}" --task mlm --seed 2
pretrain next "${llama[@]}" --form dense
pretrain next-tt "${llama[@]}" --form tt --rank 4 --embedding-rank 4 --seed 2

# Learning rate 0. A model that is its own teacher has the loss of the tokens alone; another teacher adds to the loss.
# Loss and perplexity on dev are those of the tokens.
for kind in masked next; do
  for student in $kind $kind-tt; do
    still=()
    [ "$student" = "$kind" ] || still=(--lr-ranks 0)
    run "$COMERA" finetune "$student" "${go[@]}" "${still[@]}" "${corpus[@]}" -o "$student-alone" --json
    expect_exit 0
    cp "$student-alone/report.json" alone.json
    run "$COMERA" finetune "$student" --teacher "$student" --distill logits "${go[@]}" "${still[@]}" "${corpus[@]}" \
      -o "$student-itself" --json
    expect_exit 0
    expect_json "abs(d['loss'] - json.load(open('alone.json'))['loss']) < 1e-5"
  done
  run "$COMERA" finetune "$kind-tt" --teacher "$kind" --distill logits "${go[@]}" "${still[@]}" "${corpus[@]}" -o "$kind-taught" \
    --json
  expect_exit 0
  expect_json "d['loss'] > json.load(open('alone.json'))['loss'] + 1e-4"
  expect_json "d['dev']['last'] == json.load(open('alone.json'))['dev']['last']"
  run "$COMERA" finetune "$kind" --teacher "$kind" --distill logits --seq 8 --batch 4 --dry-run
  expect_exit 0
  expect_out '^teacher '
done

# Memory for reading, evaluating and saving large weights is freed: the run's peak is the planned one.
pretrain large "${llama[@]}" --form dense --layers 1 --hidden 512 --intermediate 8192 --heads 8 --key-heads 8
run "$COMERA" finetune large "${go[@]}" "${corpus[@]}" --lr 1e-4 -o larger --json
expect_exit 0
expect_json "d['memory']['planned_peak'] > 150e6"
expect_json "d['memory']['measured_peak'] <= 1.03 * d['memory']['planned_peak'] + (8 << 20)"
rm -r large larger

# The student learns the teacher's token probabilities.
run "$COMERA" finetune next-tt --teacher next --distill logits --distill-temperature 1 --distill-weight 4 "${go[@]}" \
  --lr 1e-2 --lr-cores 1e-2 \
  --steps 40 "${corpus[@]}" -o learned --json
expect_exit 0
python3 - <<'PY' || fail "the loss against the teacher falls"
import json
losses = [row["loss"] for row in map(json.loads, open("learned/metrics.jsonl")) if "loss" in row]
assert len(losses) == 40 and losses[-1] < losses[0] / 2, losses
PY

run_refused "its task is clm, the student's mlm; use --distill hidden" finetune masked --teacher next \
  --distill logits "${go[@]}" --data corpus.txt
run_refused 'the task has neither labels nor tokens to predict' finetune masked --task embed --teacher masked \
  --distill logits "${go[@]}" --data corpus.txt
pretrain short "${model[@]}" --task mlm --form dense --positions 8
run_refused 'has 8 positions, --seq is 16' finetune masked --teacher short --distill logits "${go[@]}" --seq 16 \
  --data corpus.txt
finish
