#!/usr/bin/env bash
# predict answers when the input pauses; one object per line; files instead of stdin; empty lines have empty answers.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

for i in $(seq 30); do printf 'red round\nand green square\n\f\nblue round and red %s\n\f\n' "$i"; done >stories.txt
run "$COMERA" pretrain "${tiny[@]}" -o labels
expect_exit 0
run "$COMERA" pretrain "${model[@]}" "${words[@]}" --text text,second --label label --data train.tsv -o pairs
expect_exit 0
run "$COMERA" pretrain --model llama-6m --task clm --layers 1 --hidden 32 --heads 4 --key-heads 2 --intermediate 48 \
  --positions 64 --form dense \
  --tokenizer vocab.txt --data stories.txt --seq 16 --batch 8 --steps 60 --lr 1e-2 --no-document-end --quiet -o stories
expect_exit 0
run "$COMERA" finetune labels --task embed --teacher labels --distill hidden --data corpus.txt --steps 1 --batch 2 \
  --seq 8 --quiet -o vectors
expect_exit 0

# An answer is printed while the input is open. Lines that arrive together are answered together.
cat >talk.py <<'PY'
import json, os, select, subprocess, sys, time
program, model, *options = sys.argv[1:]
talk = subprocess.Popen([program, "predict", model, "--quiet", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def answers(count):
    text, end = b"", time.time() + 60
    while text.count(b"\n") < count and time.time() < end:
        if select.select([talk.stdout], [], [], 0.2)[0]:
            part = os.read(talk.stdout.fileno(), 1 << 16)
            assert part, "the program ended"
            text += part
    assert text.count(b"\n") == count, (count, text)
    return text.decode().split("\n")[:-1]
for lines in (["round red"], ["square green", "", "round blue blue", "round red"], [""]):
    talk.stdin.write("".join(line + "\n" for line in lines).encode())
    talk.stdin.flush()
    got = answers(len(lines))
    if "--jsonl" not in options:
        assert [line == "" for line in lines] == [line == "" for line in got], (lines, got)
talk.stdin.write(b"half a li")
talk.stdin.flush()
time.sleep(0.3)
assert not select.select([talk.stdout], [], [], 0)[0], "half a line is no line"
talk.stdin.write(b"ne\n")
talk.stdin.flush()
answers(1)
talk.stdin.close()
assert talk.wait(60) == 0 and talk.stdout.read() == b""
PY
for model in labels vectors stories; do
  for options in '' --jsonl; do
    # shellcheck disable=SC2086
    run python3 talk.py "$COMERA" $model $options
    expect_exit 0
  done
done

# Tokens are printed one by one.
cat >stream.py <<'PY'
import os, subprocess, sys
read, write = os.pipe2(os.O_DIRECT)  # each write of the program is one packet
talk = subprocess.Popen([sys.argv[1], "predict", "stories", "--max-tokens", "12", "--quiet"],
                        stdin=subprocess.PIPE, stdout=write, bufsize=0)
os.close(write)
talk.stdin.write(b"red round\n")
talk.stdin.close()
parts = []
while part := os.read(read, 1 << 16):
    parts.append(part)
assert talk.wait() == 0 and b"".join(parts).endswith(b"\n"), parts
print(len(parts), b"".join(parts).decode().strip())
assert len(parts) > 5, parts
PY
run python3 stream.py "$COMERA"
expect_exit 0
expect_out '^[0-9]+ red round'

# One numbered object per line, with the values of --json and of the plain output.
input=$'round red\n\nsquare green\n'
run_with "$input" "$COMERA" predict labels --jsonl
expect_exit 0
expect_jsonl "[l['line'] for l in d] == [1, 2, 3] and d[1]['label'] is None and d[1]['probability'] is None \
    and 0 < d[2]['probability'] <= 1"
cp .out each.jsonl
run_with "$input" "$COMERA" predict labels --json
expect_json "[{'line': i + 1, **p} for i, p in enumerate(d['predictions'])] == [json.loads(l) \
    for l in open('each.jsonl')]"
run_with "$input" "$COMERA" predict labels
expect_equal "$(sed -n 2p .out)" ''
expect_equal "$(wc -l <.out)" 3
cp .out plain.txt
run_with "$input" "$COMERA" predict vectors --jsonl
expect_jsonl "[l['line'] for l in d] == [1, 2, 3] and d[1]['embedding'] is None and len(d[0]['embedding']) == 32"
run_with "$input" "$COMERA" predict vectors
expect_equal "$(sed -n 2p .out)" ''
run_with "$input" "$COMERA" predict vectors --npy vectors.npy
expect_exit 0
run python3 -c "
import math, struct
data = open('vectors.npy', 'rb').read()
start = 10 + struct.unpack('<H', data[8:10])[0]
rows = [struct.unpack('<32f', data[start + 128 * i:start + 128 * i + 128]) for i in range(3)]
assert len(data) == start + 3 * 128 and [all(map(math.isnan, row)) for row in rows] == [False, True, False]"
expect_exit 0
run_with "$input" "$COMERA" predict stories --max-tokens 5 --jsonl
expect_jsonl "[l['line'] for l in d] == [1, 2, 3] and d[1]['text'] == '' and d[0]['text'].startswith('round red ')"
run_with "$input" "$COMERA" predict stories --max-tokens 5
expect_equal "$(sed -n 2p .out)" ''
expect_equal "$(wc -l <.out)" 3

# A comparison with a model whose answers are not finite is an error.
cp -r vectors wild
python3 - wild/model.safetensors <<'PY'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
begin, end = next(t["data_offsets"] for name, t in header.items() if name.endswith("LayerNorm.weight"))
data[8 + size + begin:8 + size + end] = struct.pack("<f", 3e38) * ((end - begin) // 4)
open(sys.argv[1], "wb").write(data)
PY
for i in $(seq 8); do echo "red round and green square and blue $i"; done >lines.txt
run "$COMERA" evaluate wild --against vectors --data lines.txt
expect_exit 1
expect_err 'gives numbers that are not finite'

# So has a line of blanks alone.
run_with $'round red\n \t \nsquare green\n' "$COMERA" predict stories --max-tokens 5 --jsonl
expect_jsonl "d[1]['prompt'] == ' \\t ' and d[1]['ids'] == [] and d[0]['text'].startswith('round red ')"
for model in labels pairs vectors; do
  run_with $'round red\n   \nsquare green\n \t \nblue\n' "$COMERA" predict "$model" --quiet
  expect_exit 0
  expect_equal "$(awk '/^$/ { printf "%s ", NR }' .out)$(wc -l <.out)" '2 4 5'
done

# A model of single texts warns of pairs, and one of pairs of single texts.
while read -r model input message; do
  run_with "$(printf '%b' "$input\\n\\n$input")" "$COMERA" predict "$model"
  expect_exit 0
  [ -n "$message" ] || expect_no_err
  [ -z "$message" ] || expect_equal "$(grep -c "$model learned $message" .err)" 1
done <<'END'
labels round
labels round\tred single texts (--text text), but pairs came; a tab separates two texts
pairs round\tred
pairs round pairs of texts (--text text,second), but single texts came
END

run_with $'round\tred\n' "$COMERA" predict vectors
expect_refused 'stdin:1: vectors embeds one text, but two came; name one column with --text'
run "$COMERA" predict vectors --data train.tsv --text text,second
expect_refused 'train\.tsv:[0-9]+: vectors embeds one text, but two came'

# A decoder goes on with whole lines; a tab in them is an ordinary character.
run_with $'round\tred\nblue\nround\tred\tgreen\n' "$COMERA" predict stories --max-tokens 5 --jsonl
expect_exit 0
expect_jsonl "[l['prompt'] for l in d] == ['round\\tred', 'blue', 'round\\tred\\tgreen']"

# A text ends with the ids of generation_config.json where the file exists, as in transformers.
run_with $'round red\n' "$COMERA" predict stories --max-tokens 8 --json
third=$(python3 -c "import json; print(json.load(open('.out'))['texts'][0]['ids'][2])")
cp -r stories ending
printf '{"eos_token_id": [0, %s]}' "$third" >ending/generation_config.json
run_with $'round red\n' "$COMERA" predict ending --max-tokens 8 --json
expect_json "d['texts'][0]['ended'] and len(d['texts'][0]['ids']) <= 2"
printf '{"eos_token_id": "end"}' >ending/generation_config.json
run_with x "$COMERA" predict ending
expect_refused 'ending/generation_config.json: eos_token_id is "end"; it must be an id or a list of ids'

# Ids that a model has and its tokenizer does not have no text.
python3 "$tests/../scripts/make_checkpoint.py" wide --architecture llama --layers 1 --hidden 32 --intermediate 48 \
  --vocabulary 200 --heads 2 --shards 1 --type F32
cp vocab.txt wide/
run_with $'round red\n' "$COMERA" predict wide --max-tokens 12 --temperature 5 --json
expect_exit 0
expect_json "max(d['texts'][0]['ids']) >= $(wc -l <vocab.txt) and d['texts'][0]['text'].startswith('round red')"

# Control characters of a text reach a file as they are, and a terminal as visible text.
run "$COMERA" tokenizer train --data stories.txt --kind bpe --vocab-size 270 -o bytes
python3 "$tests/../scripts/make_checkpoint.py" raw --architecture llama --layers 1 --hidden 32 --intermediate 48 \
  --vocabulary 270 --heads 2 --shards 1 --type F32
cp bytes/tokenizer* raw/
printf 'red\033[31mround\n' >coloured.txt
run "$COMERA" predict raw --data coloured.txt --max-tokens 1 --quiet
expect_exit 0
expect_out $'^red\033\\[31mround'
python3 "$tests/cli/terminal/terminal.py" .screen -- "$COMERA" predict raw --data coloured.txt --max-tokens 1 --quiet ||
  fail "predict ends with $?"
grep -qF 'red\x1b[31mround' .screen || fail "the terminal shows the control character: $(cat -v .screen)"

# Files as in evaluate: columns of tables by name, lines of text.
printf 'id,body\n1,round red\n2,\n3,"square\ngreen"\n' >rows.csv
printf 'round red\n  \nsquare green\n' >lines.txt
gzip -k rows.csv
for data in 'rows.csv --text body' 'rows.csv.gz --text body' lines.txt; do
  # shellcheck disable=SC2086
  run "$COMERA" predict labels --data $data
  expect_exit 0
  expect_same_bytes .out plain.txt
done
cut -f2 train.tsv | tail -n +2 | "$COMERA" predict labels >piped.txt
run "$COMERA" predict labels --data train.tsv
expect_same_bytes .out piped.txt
run "$COMERA" predict labels --data lines.txt --text body
expect_refused 'lines\.txt: --text names columns, and a text file has none'
run "$COMERA" predict labels --data rows.csv --text boby
expect_refused "rows\.csv: has no column 'boby'; the columns are 'id', 'body'; did you mean body"
run "$COMERA" predict labels --data missing.csv
expect_refused 'missing\.csv'
run_with x "$COMERA" predict labels --text body
expect_refused 'text goes with --data FILE'
while read -r model options; do
  # shellcheck disable=SC2086
  run_with x "$COMERA" predict $model $options
  expect_refused "predict. ${options%% *} has no effect: "
done <<'END'
labels --max-tokens 5
labels --chat
vectors --temperature 1
labels --label label
stories --seq 8
stories --top-p 0.5
stories --seed 3 --temperature 0
END
while read -r model options; do
  # shellcheck disable=SC2086
  run "$COMERA" evaluate $model --data train.tsv $options
  expect_refused "evaluate. ${options%% *} has no effect: "
done <<'END'
labels --whole-words
labels --seed 3
labels --document-end
stories --label label
stories --stride 4 --task choice
labels --dtype bf16 --against labels
END
run_with x "$COMERA" predict labels --json --jsonl
expect_refused 'json and --jsonl exclude each other'
finish
