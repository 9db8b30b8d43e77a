#!/usr/bin/env bash
# Progress output while a verb works: a live line on a terminal (80 columns here), and a plain line every ten seconds
# elsewhere. stdout does not change.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

# on_terminal [SIGNAL SECONDS] -- COMMAND...
on_terminal() {
  last="$* (on a terminal)"
  python3 "$tests/cli/terminal/terminal.py" .screen "$@" >.out 2>.err
  code=$?
}
# A Python condition on the last screen: `kept` and `live` are lists of lines, `raw` is the whole text.
expect_screen() {
  PYTHONPATH="$tests/cli/terminal" PYTHONDONTWRITEBYTECODE=1 python3 -c "
import re, sys, terminal
kept, live = terminal.read('.screen')
raw = open('.screen', encoding='utf-8', errors='replace').read()
shown = lambda pattern: any(re.search(pattern, line) for line in live)
sys.exit(not ($1))" 2>>.err || { fail "screen: $1" && tr '\r' '\n' <.screen | tail -n 12; }
}
narrow='all(len(line) < 80 for line in live)'

row=$(printf 'round red square green blue and %.0s' $(seq 10))
{ printf 'label\ttext\n' && for label in red green blue; do yes "$label	$row" | head -n 100000; done; } >long.tsv
tail -n +2 long.tsv | cut -f 2 >long.txt
{ printf 'label\ttext\n' && for _ in $(seq 500); do printf "%s\t$row\n" red green blue; done; } >rows.tsv
larger=(--model encoder-small --layers 6 --hidden 256 --heads 4 --intermediate 1024 --positions 64 --rank 8
  --embedding-rank 4 --order 2 --embedding-order 2 --tokenizer vocab.txt --seq 64 --batch 4 --steps 1 --quiet)
run "$COMERA" pretrain "${larger[@]}" "${columns[@]}" --data train.tsv -o labels
expect_exit 0

# Ten seconds without a terminal, in parallel with the other tests.
"$COMERA" evaluate labels --data long.tsv --threads 1 >.plain_out 2>.plain &
plain=$!

# The start of a run: its initial weights, its first step, and the weights that it saves.
on_terminal -- "$COMERA" pretrain --model encoder-small --form dense --layers 4 --hidden 1024 --heads 8 \
  --intermediate 4096 --positions 64 --tokenizer vocab.txt --seq 64 --batch 64 --steps 1 "${columns[@]}" --data rows.tsv \
  -o start
expect_exit 0
expect_screen "shown(r'^\[[#.]{10}\] drawing initial weights [0-9]+/[0-9]+  eta ')"
expect_screen "shown(r'^\[\.{10}\] step 0/1')"
expect_screen "shown(r'^\[#{10}\] step 1/1: writing weights [0-9]+/[0-9]+')"
expect_screen "$narrow"
rm -r start

# A run: its bar, its last step and the evaluation after it. Each step takes long enough to be drawn.
on_terminal -- "$COMERA" pretrain --model encoder-small --form dense --layers 2 --hidden 256 --heads 4 \
  --intermediate 1024 \
  --positions 64 --tokenizer vocab.txt --seq 64 --batch 64 --steps 8 --log-every 8 "${columns[@]}" --data rows.tsv \
  --dev rows.tsv -o run
expect_exit 0
expect_screen "'peak 0 B' not in raw"
expect_screen "'7/8' not in raw.split('step 8/8')[-1]"
expect_screen "shown(r'^\[########..\] step 7/8  eta ')"
expect_screen "shown(r'^\[##########\] step 8/8: evaluating [0-9]+/1500  eta ')"
expect_screen "$narrow"
expect_screen "all(len(line) <= 80 for line in kept if line.startswith('step '))"
expect_screen "any(line.startswith('step 8/8  loss') for line in kept)"

# Messages are wrapped at the width of the terminal, and have one line elsewhere.
short=("$COMERA" pretrain "${tiny[@]}" --warmup 10 --force -o warm)
on_terminal -- env NO_COLOR=1 "${short[@]}"
expect_exit 0
expect_screen "any(line.startswith('warning: --warmup 10') for line in kept) and all(len(line) <= 80 for line in kept)"
run "${short[@]}"
[ "$(grep -c . .err)" = 1 ] || fail 'one line without a terminal'

# A stopped verb: the answer is on its own line, and the live line is erased.
on_terminal INT 3 -- "$COMERA" evaluate labels --data long.tsv
expect_exit 130
expect_screen "shown(r'^\[[#.]{10}\] evaluating [0-9]+/300000  eta ')"
expect_screen "$narrow"
expect_screen "'stopping; again to quit now' in kept and kept[-1] == ''"
on_terminal INT 2.5 -- "$COMERA" evaluate labels --data long.tsv --quiet
expect_screen "kept == ['stopping; again to quit now', ''] and not live"
on_terminal TERM 2.5 -- "$COMERA" predict labels --data long.tsv --text text
expect_exit 143
expect_screen "shown(r'^\[[#.]{10}\] answering texts [0-9.]+ [KMG]?i?B/')"
expect_screen "$narrow"
encode='exec "$COMERA" tokenizer encode --tokenizer vocab.txt < <(while cat long.txt; do :; done) >/dev/null'
on_terminal INT 3 -- bash -c "$encode"
expect_exit 130
expect_screen "shown(r'answering lines [0-9]+')"
expect_screen "'stopping; again to quit now' in kept"
bench='exec "$COMERA" bench --model encoder-small --batch 2 --seq 16 --repetitions 100000 --json >.json'
on_terminal INT 2.5 -- sh -c "$bench"
expect_exit 130
expect_screen "shown(r'timing step [0-9]+/100002')"
[ ! -s .json ] || fail "stdout holds nothing"

# Tokens that stream to the terminal: no live line appears between them.
run "$COMERA" pretrain --model llama-6m --layers 2 --positions 2048 --task clm --tokenizer vocab.txt --seq 16 \
  --batch 2 \
  --steps 1 --quiet --data corpus.txt -o words
expect_exit 0
head -n 3 long.txt >three.txt
"$COMERA" predict words --data three.txt --max-tokens 600 >streamed.txt 2>.err
on_terminal -- "$COMERA" predict words --data three.txt --max-tokens 600
expect_exit 0
expect_screen "all(line in kept for line in open('streamed.txt').read().splitlines())"

# The plain line appears in time, without control characters.
last='evaluate without a terminal'
for _ in $(seq 300); do grep -q evaluating .plain || ! kill -0 $plain 2>/dev/null || sleep 0.1; done
kill -s TERM $plain
wait $plain
code=$?
cp .plain .err && : >.out
expect_exit 143
expect_err '^evaluating [0-9]+/300000  eta '
expect_err '^stopping; again to quit now$'
grep -q $'\r' .plain && fail "no line is erased without a terminal"
[ ! -s .plain_out ] || fail "nothing on stdout"
finish
