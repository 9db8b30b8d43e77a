#!/usr/bin/env bash
# Export of toy models to ONNX and to dense folders: files, equal bytes of two exports, refused calls that write
# nothing.
. "$(dirname "$0")/../expect.sh"
# shellcheck source=../tiny_task.sh
. "$tests/cli/tiny_task.sh" || exit 1

run "$COMERA" pretrain "${tiny[@]}" --form tt -o run
expect_exit 0
run "$COMERA" pretrain "${tiny[@]}" --form tt --pre-norm -o pre
expect_exit 0
run "$COMERA" pretrain "${model[@]}" "${words[@]}" --task mlm --data corpus.txt --dev corpus.txt -o mlm
expect_exit 0

decoder=(--model llama-6m --task clm --layers 2 --hidden 32 --heads 4 --key-heads 2 --intermediate 48 --positions 32
  --embedding-rank 4 --rank 4
  --order 2 --embedding-order 2 "${words[@]}" --data corpus.txt --dev corpus.txt)
run "$COMERA" pretrain "${decoder[@]}" -o clm
expect_exit 0

# The folder has graph, configuration without chains and tokenizer, and no files of the run.
run "$COMERA" export run -o out --json
expect_exit 0
expect_no_err
expect_json "d['schema_version'] == 1 and d['kind'] == 'export' and 'model.onnx' in d['files'] and d['opset'] == 17 \
    and d['form'] == 'tt'"
expect_json "0 < d['largest_difference'] <= d['bound'] < 1e-4 and d['values_compared'] == 12"
for file in model.onnx config.json vocab.txt; do expect_file "out/$file"; done
for file in model.safetensors recipe.toml metrics.jsonl checkpoints; do expect_no_file "out/$file"; done
run grep -c comera out/config.json
expect_out '^0$'
run "$COMERA" export out -o again
expect_exit 2

# Every model, form and type; two exports have the same bytes.
for folder in run pre mlm clm; do
  for form in tt factors dense; do
    for dtype in fp32 fp16; do
      run "$COMERA" export "$folder" -o "$folder-$form-$dtype.onnx" --form "$form" --dtype "$dtype"
      expect_exit 0
      expect_out 'largest difference from the model [0-9.e-]+ over'
    done
  done
done
run "$COMERA" export clm -o past.onnx --with-past
expect_exit 0
expect_out 'largest difference'
run "$COMERA" export run -o again.onnx
expect_exit 0
expect_same_bytes run-tt-fp32.onnx again.onnx
run "$COMERA" export run -o again.onnx
expect_refused 'again.onnx: exists already.*--force'
run "$COMERA" export run -o again.onnx --force --form dense
expect_exit 0
expect_same_bytes run-dense-fp32.onnx again.onnx
run "$COMERA" export run -o out --force
expect_exit 0
for opset in 13 16 18 21; do
  run "$COMERA" export run -o "opset$opset.onnx" --opset "$opset"
  expect_exit 0
done

# The program reports the cause if the graph is larger than its source.
for type in F16 BF16 F32; do
  python3 "$tests/../scripts/make_checkpoint.py" "stored$type" --architecture bert --layers 1 --hidden 32 \
    --intermediate 64 --vocabulary 40 --heads 2 --shards 1 --type "$type"
  for options in '' '--dtype fp16' '--dtype fp32' '--dry-run'; do
    # shellcheck disable=SC2086  # options
    run "$COMERA" export "stored$type" -o "stored.onnx" --force $options
    expect_exit 0
    said=$(grep -c 'weights are [bf]*p*16 here and become fp32 in the graph; --dtype fp16 halves the file' .err)
    case "$type$options" in
      F16 | BF16 | *16--dry-run) expect_equal "$said" 1 ;;
      *) expect_equal "$said" 0 ;;
    esac
  done
done

# Refused calls leave no files.
for opset in 12 22 0; do
  run "$COMERA" export run -o new --opset "$opset"
  expect_refused "--opset $opset is out of range"
done
run "$COMERA" export run
expect_refused '-o is missing'
run "$COMERA" export run -o new --form lowrank
expect_refused 'lowrank'
run "$COMERA" export run -o new --with-past
expect_refused 'only decoders'
run "$COMERA" export run -o run --force
expect_refused ': is MODEL run'
run "$COMERA" export run -o . --force
expect_refused ': holds MODEL run'
mkdir precious && touch precious/thing
run "$COMERA" export run -o precious --force
expect_refused 'does not replace it|does not replace the folder'
expect_file precious/thing
# --force replaces weights and files that are written again, and no other file.
run "$COMERA" export run -o replaced --to safetensors
expect_exit 0
for foreign in thesis.txt .git/HEAD data/set.tsv recipe.toml src/model.safetensors; do
  mkdir -p "replaced/$(dirname "$foreign")" && echo precious >"replaced/$foreign"
  for form in onnx safetensors; do
    run "$COMERA" export run -o replaced --force --to "$form"
    expect_refused "holds $foreign, which this export would not make again"
    expect_file "replaced/$foreign"
  done
  rm "replaced/$foreign"
  find replaced -type d -empty -delete
done
ln -s /etc/passwd replaced/link
run "$COMERA" export run -o replaced --force --to safetensors
expect_refused 'holds link \(a link to a file\), which'
rm replaced/link
mkfifo pipe.onnx
run "$COMERA" export run -o pipe.onnx --force
expect_refused 'pipe.onnx: is a pipe, a device or a broken link, which --force does not replace'
[ -p pipe.onnx ] || fail 'the pipe is there'
for form in onnx safetensors onnx; do
  run "$COMERA" export run -o replaced --force --to "$form"
  expect_exit 0
done
expect_no_file replaced/model.safetensors
mkdir project && echo '{"port": 80}' >project/config.json
run "$COMERA" export run -o project --force
expect_refused 'holds config.json, which'
run "$COMERA" finetune run --data train.tsv --dev dev.tsv --text text --label label --steps 1 --batch 4 -o tuned
expect_exit 0
run "$COMERA" export run -o tuned --to safetensors --force
expect_refused 'holds .*checkpoints/'
run "$COMERA" export missing -o new
expect_refused 'missing'
run "$COMERA" export run -o new --dry-run --json
expect_exit 0
expect_json "d['bytes'] == $(stat -c %s out/model.onnx)"
expect_no_file new
expect_equal "$(find . -name '*.comera')" ''

# A dense folder with the same values: it has every tensor under the standard names, and comera opens it.
run "$COMERA" export run -o dense --to safetensors --json
expect_exit 0
expect_json "d['bytes'] == $(stat -c %s dense/model.safetensors) and d['chains'] > 5"
run "$COMERA" inspect dense --json
expect_json "all(layer['form'] == 'dense' for layer in d['layers'])"
run "$COMERA" export dense -o dense.onnx --form dense
expect_exit 0
"$COMERA" predict run --json <<<'round red' >a.json
"$COMERA" predict dense --json <<<'round red' >b.json
run python3 -c "
import json
a, b = (json.load(open(name))['predictions'][0] for name in ('a.json', 'b.json'))
assert a['label'] == b['label'] and abs(a['probability'] - b['probability']) < 1e-5, (a, b)"
expect_exit 0
run "$COMERA" export run -o new --to safetensors --form tt
expect_refused 'dense weights'
run "$COMERA" export run -o new --to safetensors --opset 17
expect_refused '--opset belongs to ONNX'
run "$COMERA" export run -o new.onnx --to safetensors
expect_refused 'writes a folder'
expect_no_file new

# Real checkpoints, if COMERA_DATA has them.
if [ -n "${COMERA_DATA:-}" ]; then
  run "$COMERA" export "$COMERA_DATA/checkpoints/all-MiniLM-L6-v2" -o minilm --form dense --json
  expect_exit 0
  expect_json "d['largest_difference'] <= d['bound'] < 1e-4 and d['values_compared'] > 10000 \
      and 'vocab.txt' in d['files']"
  run "$COMERA" export "$COMERA_DATA/checkpoints/stories260K" -o stories --form dense --with-past --json
  expect_exit 0
  expect_json "d['largest_difference'] <= d['bound'] < 1e-3"
else
  echo 'COMERA_DATA is not set: real checkpoints are not exported'
fi
# A small folder of chains claims dense weights of any size: the size is told, and nothing is written or allocated.
run "$COMERA" pretrain "${tiny[@]}" --model encoder-small --layers 1 --hidden 32768 --heads 256 --intermediate 32768 \
  --positions 8 --form tt --rank 1 --embedding-form tt --embedding-rank 1 --order 5 --embedding-order 2 --batch 1 \
  --steps 1 -o wide
expect_exit 0
# shellcheck disable=SC2016  # for the inner shell
limited=(bash -c 'ulimit -v 4000000 -f 1000000 && exec "$@"' _ "$COMERA")
for to in onnx safetensors; do
  run "${limited[@]}" export wide --form dense --to $to -o large --dry-run --json
  expect_exit 0
  expect_json "d['bytes'] > 2**34"
  expect_no_file large
done
if [ "$(df --output=avail -B 1 . | tail -n 1)" -lt $((20 << 30)) ]; then
  run "${limited[@]}" export wide --to safetensors -o large
  expect_exit 1
  expect_err '^large: [0-9.]* GiB to write, .* free on its disk'
  expect_err 'large: the output has [0-9.]* GiB, and its disk has .* free; free some space'
  expect_no_file large
fi
if [ "$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)" -lt $((16 << 20)) ]; then
  run "${limited[@]}" export wide --form dense -o large
  expect_exit 1
  expect_err '(the export takes [0-9.]* GiB of memory or more, and .* are free|its disk has .* free)'
  expect_no_file large
fi
run "${limited[@]}" export wide -o small
expect_exit 0
expect_err '^small: [0-9.]* MiB to write'
finish
