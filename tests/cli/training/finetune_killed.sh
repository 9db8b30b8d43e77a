#!/usr/bin/env bash
# A killed finetune of a sentence-transformers folder resumes to the same files, bytes and predictions.
[ -w /dev/shm ] && export TMPDIR=/dev/shm  # a hundred runs that sync every file
. "$(dirname "$0")/../expect.sh"
python3 "$tests/../scripts/make_checkpoint.py" base --architecture bert --layers 1 --hidden 16 --intermediate 32 \
  --vocabulary 16 --heads 2 --shards 1 --type F32
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a b c d e f g h >base/vocab.txt
printf '{"do_lower_case": true}' >base/tokenizer_config.json
printf '{"max_seq_length": 12}' >base/sentence_bert_config.json
mkdir base/1_Pooling base/2_Normalize base/docs
printf '{"pooling_mode_cls_token": true}' >base/1_Pooling/config.json
printf '# A model\n' >base/README.md
printf 'notes\n' >base/docs/notes.md
python3 - <<'E2'
import json
kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
json.dump([{"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
           for i, (kind, path) in enumerate(kinds)], open("base/modules.json", "w"))
E2
printf '%s\n' 'a b c' 'd e' 'f g h a' 'b b' 'c d' 'e f g' 'h' 'a c e g' >text.txt
options=(--teacher base --distill embedding --data text.txt --dev text.txt --batch 4 --steps 4 --save-every 2
  --eval-every 2 --log-every 3 --keep 1
  --lr 1e-2 --threads 1 --quiet)

# files FOLDER: prints every file with a hash of its bytes. Files with times are hashed without the measured times.
files() {
  python3 - "$1" <<'E2'
import hashlib, json, os, re, sys
timed = re.compile("time|seconds|_ms$|per_second|peak|memory|metrics_bytes|^checksum$")
def kept(value):
    if isinstance(value, dict): return {k: kept(v) for k, v in value.items() if not timed.search(k)}
    return [kept(v) for v in value] if isinstance(value, list) else value
for folder, _, names in sorted(os.walk(sys.argv[1])):
    for name in sorted(names):
        path = os.path.join(folder, name)
        data = open(path, "rb").read()
        if name.endswith(".tmp"): continue
        if name == "report.html": data = b""
        if name == "state.json": data = json.dumps(kept(json.loads(data))).encode()
        if name == "report.json": data = b""
        if name == "metrics.jsonl":
            data = b"\n".join(json.dumps(kept(json.loads(line))).encode() for line in data.splitlines())
        print(os.path.relpath(path, sys.argv[1]), hashlib.sha256(data).hexdigest())
E2
}
sentences=$'a b c\nd e f\n'
run "$COMERA" finetune base "${options[@]}" -o run
expect_exit 0
files run >whole.files
run_with "$sentences" "$COMERA" predict run
expect_exit 0
mv .out whole.answer
for file in modules.json README.md docs/notes.md 1_Pooling/config.json sentence_bert_config.json; do
  expect_same_bytes "base/$file" "run/$file"
done

kills=0
for ((fault = 1; fault < 1000; ++fault)); do
  last="finetune with COMERA_FAULT_AT=$fault"
  rm -rf run
  COMERA_FAULT_AT=$fault "$COMERA" finetune base "${options[@]}" -o run >.out 2>.err
  code=$?
  [ "$code" = 0 ] && break
  expect_exit 137
  kills=$((kills + 1))
  [ -e stopped ] || [ ! -e run/checkpoints/step-00000002/state.json ] || { cp -r run stopped && rm -f stopped/.[a-z]*; }
  run "$COMERA" finetune base "${options[@]}" -o run --resume
  expect_exit 0
  last="finetune --resume after COMERA_FAULT_AT=$fault"
  files run >killed.files
  diff whole.files killed.files >.err || fail "the folder equals that of an uninterrupted run"
  run_with "$sentences" "$COMERA" predict run
  cmp -s whole.answer .out || fail "predictions after a kill at write $fault are those of a whole run"
done
[ "$kills" -gt 100 ] || fail "the run is killed at more than 100 writes"

# A file beside the weights that is lost or changed makes another model of the folder. It comes again from the model.
for damage in 'rm -r modules.json 1_Pooling' 'rm vocab.txt' 'printf "%s\n" "[PAD]" "[UNK]" "[CLS]" "[SEP]" x >vocab.txt' \
  'printf "{}" >1_Pooling/config.json' 'rm tokenizer_config.json' 'rm -r docs README.md'; do
  rm -rf run && cp -r stopped run
  (cd run && eval "$damage") || fail "damage: $damage"
  last="$damage"
  run "$COMERA" finetune --resume run
  expect_exit 0
  expect_err '^warning: \[resume\] run/.* (is missing|was changed since the run began); it is there again from the model'
  files run >mended.files
  diff whole.files mended.files >.err || fail "after '$damage' the folder equals that of an uninterrupted run"
  run_with "$sentences" "$COMERA" predict run
  cmp -s whole.answer .out || fail "predictions after '$damage' are those of a whole run"
done
# A README of the user stays; what the model no longer holds is named.
rm -rf run && cp -r stopped run
printf 'mine\n' >run/README.md
run "$COMERA" finetune --resume run
expect_exit 0
expect_equal "$(cat run/README.md)" mine
cp -r base kept
printf '{"pooling_mode_mean_tokens": true}' >base/1_Pooling/config.json
rm -rf run && cp -r stopped run
rm run/1_Pooling/config.json
files run >before.files
run "$COMERA" finetune --resume run
expect_refused '\[resume\] run/1_Pooling/config.json is missing, and the model that the run began with does not hold it'
files run >after.files
expect_same_bytes before.files after.files
run "$COMERA" finetune --resume run --override
expect_exit 0
expect_err 'warning: \[resume\] run/1_Pooling/config.json is missing; resuming because of --override'
echo "$kills kills"
finish
