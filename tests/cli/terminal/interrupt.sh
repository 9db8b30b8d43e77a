#!/usr/bin/env bash
# A signal at any time in any verb: the program answers at once, stops within two seconds, and leaves no files.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1
# shellcheck source=../interrupted.sh
. "$tests/cli/interrupted.sh" || exit 1

row=$(printf 'round red square green blue and %.0s' $(seq 10))
{ printf 'label\ttext\n' && for label in red green blue; do yes "$label	$row" | head -n 150000; done; } >long.tsv
tail -n +2 long.tsv | cut -f 2 >long.txt
for _ in $(seq 8); do cat long.txt; done >longer.txt
{ head -n 1 long.tsv && for _ in $(seq 4); do tail -n +2 long.tsv; done; } >longest.tsv
larger=(--model encoder-small --layers 6 --hidden 256 --heads 4 --intermediate 1024 --positions 64 --rank 8
  --embedding-rank 4 --order 2 --embedding-order 2 --tokenizer vocab.txt --seq 64 --batch 4 --steps 1 --quiet)
run "$COMERA" pretrain "${larger[@]}" "${columns[@]}" --data train.tsv -o labels
expect_exit 0
run "$COMERA" pretrain --model llama-6m --layers 2 --positions 2048 --task clm --tokenizer vocab.txt --seq 16 \
  --batch 2 \
  --steps 1 --quiet --data corpus.txt -o words
expect_exit 0

for moment in 0 0.7 2; do
  interrupted INT $moment "$answer" "$COMERA" evaluate labels --data long.tsv
done
interrupted TERM 1 "$answer" "$COMERA" evaluate words --data long.txt --seq 64
interrupted INT 1 "$answer" "$COMERA" evaluate labels --data long.tsv --predictions predicted.tsv
interrupted INT 1 "$answer" "$COMERA" predict labels --data long.tsv --text text
interrupted TERM 1 "$answer" "$COMERA" predict words --max-tokens 2000 --data long.txt
interrupted INT 0.5 "$answer" "$COMERA" predict labels < <(sleep 20)  # it waits for input
for moment in 0 1.5; do
  interrupted INT $moment "$answer" "$COMERA" tokenizer train --data longer.txt --sample 0 -o tokenizer
done
interrupted INT 1 "$answer" "$COMERA" tokenizer train --data longer.txt --sample 100000 --kind unigram \
  --vocab-size 100 -o tokenizer
interrupted INT 0.3 "$answer" "$COMERA" bench --model encoder-small --batch 2 --seq 16 --repetitions 100000
# One step takes longer than two seconds.
interrupted TERM 0.5 "$answer" "$COMERA" bench --model mnli-6enc --batch 256 --seq 128

# A run saves its state. While it reads data it has no state to save, and it leaves no folder.
interrupted INT 0.2 "$answer" "$COMERA" pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data longest.tsv -o run

# A second signal ends the program at once.
"$COMERA" evaluate labels --data long.tsv >.out 2>.err &
pid=$!
until_ready $pid
kill -s INT $pid
kill -s INT $pid
wait $pid
code=$?
last='evaluate, SIGINT twice'
expect_exit 130
finish
