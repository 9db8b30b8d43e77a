#!/usr/bin/env bash
# The final model has the element types of the source. Checkpoints have the full precision.
. "$(dirname "$0")/../expect.sh"
. "$(dirname "$0")/../tiny_task.sh"

cat >types.py <<'PY'
import json, struct, sys
def head_of(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]
def types(path):
    return {name: entry["dtype"] for name, entry in head_of(path)[0].items() if name != "__metadata__"}
# usage: types.py FROM TO TYPE: writes the file with its matrices in another type, otherwise unchanged
if __name__ == "__main__":
    head, data = head_of(sys.argv[1])
    out, body = {"__metadata__": head.pop("__metadata__")}, b""
    for name, entry in sorted(head.items(), key=lambda item: (len(item[1]["shape"]) < 2, item[0])):
        begin, end = entry["data_offsets"]
        part, dtype = data[begin:end], entry["dtype"]
        if len(entry["shape"]) > 1:
            numbers, dtype = struct.unpack(f"<{len(part) // 4}f", part), sys.argv[3]
            part = (struct.pack(f"<{len(numbers)}e", *numbers) if dtype == "F16" else
                    b"".join(struct.pack("<f", v)[2:] for v in numbers))
        out[name] = {"dtype": dtype, "shape": entry["shape"], "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
holds() { python3 -c "from types_of import *; assert $1, $1" 2>>.err || fail "$1"; }
mv types.py types_of.py

run "$COMERA" pretrain "${tiny[@]}" --dropout 0 --lr 1e-2 --lr-cores 1e-2 -o small
expect_exit 0
go=("${columns[@]}" --data train.tsv --dev dev.tsv --seq 8 --batch 4 --steps 6 --lr 1e-3 --lr-cores 1e-3 --save-every 3
  --threads 2 --quiet)
for type in F16:fp16:float16 BF16:bf16:bfloat16; do
  IFS=: read -r type word torch <<<"$type"
  cp -r small "$word"
  rm -rf "$word/checkpoints" "$word/recipe.toml"
  python3 types_of.py small/model.safetensors "$word/model.safetensors" "$type"
  run "$COMERA" finetune "$word" "${go[@]}" -o "on-$word"
  expect_exit 0
  holds "types('on-$word/model.safetensors') == types('$word/model.safetensors')"
  holds "'$type' in types('on-$word/model.safetensors').values() \
      and 'F32' in types('on-$word/model.safetensors').values()"
  holds "set(types('on-$word/checkpoints/step-00000006/model.safetensors').values()) == {'F32'}"
  holds "set(types('on-$word/checkpoints/step-00000006/optimizer.safetensors').values()) == {'F32'}"
  expect_equal "$(stat -c %s "on-$word/model.safetensors")" "$(tail -n 1 "on-$word/metrics.jsonl" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["bytes"])')"
  grep -q "\"torch_dtype\": \"$torch\"" "on-$word/config.json" || fail "config.json has $torch"
  run "$COMERA" evaluate "on-$word" --data dev.tsv "${columns[@]}" --seq 8 --json
  expect_exit 0

  # Stopped and resumed: the same bytes.
  cp -r "on-$word" whole
  rm -r "on-$word"/checkpoints/step-*6 "on-$word/model.safetensors"
  run "$COMERA" finetune --resume "on-$word" --quiet
  expect_exit 0
  expect_same_bytes "on-$word/model.safetensors" whole/model.safetensors
  rm -r whole
done

# --save-dtype selects another type. With learning rate 0 the values do not change.
run "$COMERA" finetune fp16 "${go[@]}" --save-dtype fp32 -o wide
expect_exit 0
holds "set(types('wide/model.safetensors').values()) == {'F32'}"
run "$COMERA" finetune small "${go[@]}" --save-dtype bf16 --adapt-ranks -o narrow
expect_exit 0
holds "all(t == ('F32' if '.rank.' in n else 'BF16') for n, t in types('narrow/model.safetensors').items())"
run "$COMERA" finetune fp16 "${go[@]}" --lr 0 --lr-cores 0 --lr-ranks 0 -o still
expect_exit 0
holds "all(head_of('still/model.safetensors')[1].count(head_of('fp16/model.safetensors')[1][slice(*e['data_offsets'])])
  for n, e in head_of('fp16/model.safetensors')[0].items() if n != '__metadata__')"

# --target-size counts the bytes of the final file.
run "$COMERA" finetune fp16 "${go[@]}" --steps 12 --target-size 14000 -o reached
expect_exit 0
size=$(stat -c %s reached/model.safetensors)
if [ "$size" -gt 14500 ] || [ "$size" -lt 12000 ]; then fail "$size bytes for 14000"; fi
finish
