# shellcheck shell=bash disable=SC2034,SC2154
# Sourced after expect.sh: the script that makes checkpoints of random numbers, and a text that calibrates them.
make="python3 $tests/../scripts/make_checkpoint.py"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green blue round square and >vocab.txt
for i in $(seq 120); do
  printf 'red round and green square %s and blue\n' "$([ $((i % 3)) = 0 ] && echo green || echo red)"
done >text.txt
text=(--calibrate text.txt --tokenizer vocab.txt --calibrate-tokens 800)
# Words in any order: layers read inputs of full rank.
python3 -c "
import random
random.seed(1)
for _ in range(400): print(*random.choices('red green blue round square and'.split(), k=18))" >drawn.txt
drawn=(--calibrate drawn.txt --tokenizer vocab.txt --calibrate-tokens 3000)
