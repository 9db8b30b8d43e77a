#!/usr/bin/env bash
# Every printed table fits the terminal: no line of stdout exceeds COLUMNS. Pipes and csv get the complete table.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

# Prints the longest line of a file in columns (not bytes).
longest_line() {
  python3 -c 'import sys; print(max(map(len, open(sys.argv[1], encoding="utf-8").read().split("\n"))))' "$1"
}

# Runs a command under 60, 80 and 200 columns.
fits() {
  local width
  for width in 60 80 200; do
    run env COLUMNS="$width" "$@"
    expect_exit 0
    [ -s .out ] || fail "something on stdout"
    [ "$(longest_line .out)" -le "$width" ] ||
      fail "lines of at most $width columns, the longest has $(longest_line .out)"
  done
}

# Labels and folders with long names.
sed -e '1!s/^\([a-z]*\)\t/a_rather_long_label_for_\1\t/' train.tsv >long.tsv
for i in $(seq 12); do echo "round red and square green and blue round $i"; done >lines.txt
table=(--text text --label label)
out=a-folder-of-runs-whose-name-takes-a-lot-of-room
run "$COMERA" pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data long.tsv --dev long.tsv --dropout 0 \
  --eval-every 2 \
  --log-every 1 -o $out-of-a-tt-model
expect_exit 0
run "$COMERA" pretrain "${model[@]}" "${words[@]}" "${columns[@]}" --data long.tsv --dev long.tsv --form dense \
  -o $out-of-a-dense-model
expect_exit 0
run env COLUMNS=80 "$COMERA" pretrain --resume $out-of-a-tt-model  # a run that has ended prints its table again
expect_exit 0
expect_out 'dev accuracy'
expect_out 'parameters'
[ "$(longest_line .out)" -le 80 ] || fail "the table of a run fits 80 columns"
for width in 60 80 200; do
  run env COLUMNS=$width "$COMERA" finetune $out-of-a-tt-model --data long.tsv --dev long.tsv "${table[@]}" \
    --seq 8 --batch 4 --steps 2 --quiet --force -o healed
  expect_exit 0
  [ "$(longest_line .out)" -le "$width" ] || fail "the table of finetune fits $width columns"
done

tt=$out-of-a-tt-model dense=$out-of-a-dense-model
fits "$COMERA" pretrain "${model[@]}" --seq 16 --dry-run
fits "$COMERA" finetune $tt --data long.tsv --text text --label label --seq 8 --batch 4 --dry-run
fits "$COMERA" version
fits "$COMERA" inspect $tt
fits "$COMERA" inspect $tt --filter attention --sort -bytes
fits "$COMERA" inspect $tt $dense
fits "$COMERA" inspect --runs $tt $dense
fits "$COMERA" evaluate $tt --data long.tsv --text text --label label
fits "$COMERA" evaluate $dense --against $tt --data lines.txt --seq 12
fits "$COMERA" tensorize $dense --ratio 1.1 --dry-run
fits "$COMERA" bench "${model[@]}" --batch 2 --seq 8 --warmup 1 --repetitions 2 --quiet
fits "$COMERA" bench --linear 64x96 --rank 4 --batch 1 --seq 16 --warmup 1 --repetitions 2 --quiet
fits "$COMERA" bench --table 300x64 --embedding-rank 4 --batch 1 --seq 16 --warmup 1 --repetitions 2 --quiet
fits "$COMERA" export $tt -o graph --dry-run
fits "$COMERA" export $tt -o plain --to safetensors --dry-run

# Verbs that write files: one folder per width; the first argument is its name.
written() {
  local folder=$1 width
  shift
  for width in 60 80 200; do
    run env COLUMNS="$width" "$@" -o "$folder-$width"
    expect_exit 0
    [ -s .out ] || fail "something on stdout"
    [ "$(longest_line .out)" -le "$width" ] ||
      fail "lines of at most $width columns, the longest has $(longest_line .out)"
  done
}
written ratio "$COMERA" tensorize $dense --ratio 1.1 --quiet
written ratios "$COMERA" tensorize $dense --ratio 1.05,1.1 --quiet
written ranks "$COMERA" tensorize $dense --rank 2 --form tt --quiet
written graph "$COMERA" export $tt --quiet
written plain "$COMERA" export $tt --to safetensors --quiet
written pieces "$COMERA" tokenizer train --data corpus.txt --vocab-size 40 --quiet
fits "$COMERA" inspect ratio-80 --verify $dense
fits "$COMERA" inspect ratio-80 $dense

# Language models: perplexity, with windows and without.
run "$COMERA" pretrain --model llama-6m --layers 1 --hidden 32 --heads 2 --intermediate 64 --positions 16 --rank 4 \
  --embedding-rank 4 --task clm \
  --tokenizer vocab.txt --data corpus.txt --seq 8 --batch 2 --steps 3 --quiet -o words
expect_exit 0
fits "$COMERA" evaluate words --data corpus.txt
fits "$COMERA" evaluate words --data corpus.txt --seq 8 --stride 4
fits "$COMERA" evaluate words --against words --data lines.txt --seq 12

# A terminal of 60 columns has the same effect as COLUMNS=60.
python3 - "$COMERA" $tt $dense >.out <<'PTY' || fail 'a terminal of 60 columns gets tables of 60 columns'
import fcntl, os, pty, struct, sys, termios
program, *runs = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    os.environ.pop("COLUMNS", None)
    os.execv(program, [program, "inspect", *runs])
text = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    text += part
_, status = os.waitpid(pid, 0)
lines = text.decode().replace("\r", "").split("\n")
print(max(map(len, lines)), "columns")
sys.exit(status != 0 or max(map(len, lines)) > 60 or len(lines) < 10)
PTY

# A pipe gets the whole table, and so does csv under any width. On a terminal the columns left out are named.
run env -u COLUMNS "$COMERA" inspect $tt
expect_out 'at the start'
expect_out '^bert\.encoder\.layer\.0\.attention\.self\.query\.weight '
run env COLUMNS=60 "$COMERA" inspect $tt --format csv
expect_out '^name,kind,shape,form,modes,ranks,initial_ranks,parameters,bytes,ratio,share$'
expect_out '^bert\.encoder\.layer\.0\.attention\.self\.query\.weight,'
run env COLUMNS=60 "$COMERA" inspect $tt
expect_out '^not shown in 60 columns: .*at the start'
finish
