#!/usr/bin/env bash
# Models of images: trained, resumed, fine-tuned, evaluated, asked, compressed and exported; wrong images are refused.
. "$(dirname "$0")/../expect.sh"

# IDX sets of gray images of 8 x 8: class 0 is bright on the left, 1 on the right, 2 at the top. A folder of PNG files of
# 10 x 10 in colours, a class each for the first two. Broken files.
cat >make.py <<'PYTHON'
import gzip, pathlib, random, struct, zlib

def image(label, size, draw):
    def bright(x, y):
        return (x < size // 2, x >= size // 2, y < size // 2)[label]
    return bytes(min(255, int(draw.random() * 120) + 120 * bright(x, y)) for y in range(size) for x in range(size))

def idx(sizes, content):
    return b"\0\0\x08" + bytes([len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + content

def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

def png(width, height, kind, lines, more=b""):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)) + more +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))

def colour_png(label, draw):
    gray = image(label, 10, draw)
    return png(10, 10, 2, b"".join(b"\0" + bytes(v for x in range(10) for v in (gray[10 * y + x],) * 3) for y in range(10)))

draw = random.Random(1)
for part, count in (("train", 300), ("test", 90)):
    labels = bytes(i % 3 for i in range(count))
    pixels = b"".join(image(label, 8, draw) for label in labels)
    pathlib.Path(f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx([count, 8, 8], pixels)))
    pathlib.Path(f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx([count], labels)))
for label, name in enumerate(("left", "right")):
    pathlib.Path("pictures", name).mkdir(parents=True)
    for i in range(12):
        pathlib.Path("pictures", name, f"{i}.png").write_bytes(colour_png(label, draw))
pathlib.Path("shown").mkdir()
right = image(1, 8, draw)
lines = b"".join(b"\0" + right[8 * y:8 * y + 8] for y in range(8))
side = b"".join(b"\0" + bytes(right[8 * y + 7 - x] for y in range(8)) for x in range(8))  # turned against the clock
exif = b"MM\0*" + struct.pack(">IHHHIHH", 8, 1, 0x112, 3, 1, 6, 0) + bytes(4)  # 6: turn it with the clock
pathlib.Path("shown", "plain.png").write_bytes(png(8, 8, 0, lines))
pathlib.Path("shown", "gamma.png").write_bytes(png(8, 8, 0, lines, chunk(b"gAMA", struct.pack(">I", 100000))))
pathlib.Path("shown", "turned.png").write_bytes(png(8, 8, 0, side, chunk(b"eXIf", exif)))
pathlib.Path("lies-images-idx3").write_bytes(idx([1000, 8, 8], bytes(640)))
pathlib.Path("lies-labels-idx1").write_bytes(idx([1000], bytes(1000)))
pathlib.Path("huge.png").write_bytes(png(100000, 100000, 0, b"\0"))
pathlib.Path("cut.png").write_bytes(colour_png(0, draw)[:-40])
PYTHON
python3 make.py

small=(--image-size 8 --patch 4 --layers 2 --hidden 16 --heads 2 --intermediate 32)
options=(--model vit-mini "${small[@]}" --batch 20 --steps 90 --seed 3 --lr 5e-3 --lr-cores 2e-3 --warmup 5
  --save-every 30 --crop 1 --quiet)
data=(--data train-images-idx3-ubyte.gz --dev test-images-idx3-ubyte.gz)

run "$COMERA" pretrain "${options[@]}" "${data[@]}" --form dense -o dense
expect_exit 0
expect_file dense/preprocessor_config.json
run "$COMERA" pretrain "${options[@]}" "${data[@]}" --form tt --rank 4 --order 2 -o whole
expect_exit 0
for name in dense whole; do
  run "$COMERA" evaluate $name --data test-images-idx3-ubyte.gz --json --require 'accuracy>=0.8'  # a third by chance
  expect_exit 0
  expect_json "d['task'] == 'image' and d['examples'] == 90 and d['labels'] == ['0', '1', '2'] and len(d['confusion']) == 3"
done
run "$COMERA" evaluate whole --data test-images-idx3-ubyte.gz
expect_out 'most often taken for'
run "$COMERA" inspect whole
expect_out 'vit.encoder.layer.0.attention.attention.query.weight +linear +16x16 +tt'
run "$COMERA" inspect --runs dense whole
expect_out 'dev accuracy'

# Other threads, micro-batches, recomputed blocks and a resume give the same bytes.
run "$COMERA" pretrain "${options[@]}" "${data[@]}" --form tt --rank 4 --order 2 --threads 2 --activations block -o threads
expect_same_bytes whole/model.safetensors threads/model.safetensors
cp -r whole again
rm -r again/checkpoints/step-00000090 again/model.safetensors
run "$COMERA" pretrain --resume again
expect_exit 0
expect_same_bytes whole/model.safetensors again/model.safetensors
run "$COMERA" pretrain --resume again --crop 2
expect_refused 'crop'

# predict: a class per image, from an IDX file, and from paths in lines.
run "$COMERA" predict whole --data test-images-idx3-ubyte.gz
expect_exit 0
expect_equal "$(wc -l <.out)" 90
lines=$'pictures/left/0.png\n\n \npictures/right/0.png\n'
run_with "$lines" "$COMERA" predict whole
expect_exit 0
expect_equal "$(cut -f1 .out | tr '\n' ' ')" '0   1 '
run_with "$lines" "$COMERA" predict whole --jsonl
expect_jsonl "[l['label'] for l in d] == ['0', None, None, '1']"
run "$COMERA" predict whole --data pictures --jsonl
expect_jsonl "len(d) == 24 and d[0]['image'] == 'pictures/left/0.png' and d[0]['label'] == '0'"

# A model of coloured pictures, whose classes are folders; a new head of two classes on a trained model.
run "$COMERA" pretrain --task image "${small[@]}" --channels 3 --form dense --data pictures --dev pictures --batch 8 \
  --steps 60 --lr 3e-3 --flip --quiet -o colours
expect_exit 0
run "$COMERA" evaluate colours --data pictures --json
expect_json "d['examples'] == 24 and d['labels'] == ['left', 'right']"
run "$COMERA" finetune whole --data pictures --dev pictures --steps 20 --batch 8 --lr 1e-3 --quiet -o tuned
expect_exit 0
run "$COMERA" evaluate tuned --data pictures --json --require 'accuracy>=0.9'
expect_exit 0
expect_json "d['labels'] == ['left', 'right']"

# Compression of the dense model, and exports: the graph and the dense folder are compared with the model.
run "$COMERA" tensorize dense -o small --ratio 1.3 --json
expect_exit 0
run "$COMERA" evaluate small --data test-images-idx3-ubyte.gz --json
expect_exit 0
run "$COMERA" export whole -o whole.onnx --json
expect_exit 0
expect_json "d['largest_difference'] <= d['bound'] and d['values_compared'] > 0"
run "$COMERA" export whole -o plain --to safetensors --json
expect_exit 0
expect_json "d['largest_difference'] <= d['bound']"
run "$COMERA" predict plain --data test-images-idx3-ubyte.gz
expect_exit 0
run "$COMERA" export whole -o past --with-past
expect_refused 'has no past'

# A plan without data.
run "$COMERA" pretrain --model vit-tiny --form dense --batch 8 --dry-run --json
expect_json "d['totals']['parameters'] == 5717416"

# Shifts that leave nothing of an image.
run "$COMERA" pretrain --task image "${small[@]}" --form dense --crop 8 --dry-run
expect_refused '--crop 8: such a shift leaves nothing of an image of 8 x 8 pixels; use at most 7'
run "$COMERA" pretrain --task image "${small[@]}" --form dense --crop 7 --dry-run
expect_exit 0
run "$COMERA" finetune whole --data pictures --steps 1 --crop 8 -o new
expect_refused '--crop 8: .*use at most 7'
expect_no_file new

# A preprocessor_config.json whose steps are others.
cp -r plain asks
python3 - <<'PYTHON'
import json
config = json.load(open("asks/preprocessor_config.json"))
json.dump({**config, "size": {"shortest_edge": 8}}, open("asks/preprocessor_config.json", "w"))
PYTHON
run "$COMERA" predict asks --data test-images-idx3-ubyte.gz
expect_refused 'asks/preprocessor_config.json: size has shortest_edge'
python3 - <<'PYTHON'
import json
config = json.load(open("plain/preprocessor_config.json"))
json.dump({**config, "image_processor_type": "DeiTImageProcessor", "size": 10, "crop_size": 8},
          open("asks/preprocessor_config.json", "w"))
PYTHON
run "$COMERA" predict asks --data test-images-idx3-ubyte.gz
expect_exit 0

# Gamma changes nothing; a picture on its side stands upright: class 1, bright on the right, is stored with the top there.
run "$COMERA" predict whole --data shown/plain.png,shown/gamma.png --jsonl
expect_jsonl "d[0]['label'] == d[1]['label'] == '1' and d[0]['probability'] == d[1]['probability']"
run "$COMERA" predict whole --data shown/plain.png,shown/turned.png --jsonl
expect_jsonl "d[0]['label'] == d[1]['label'] == '1' and d[0]['probability'] == d[1]['probability']"

# Wrong data: one line, and no run folder.
refuses() { # MESSAGE OPTIONS...
  local message=$1
  shift
  run "$COMERA" pretrain "${options[@]}" "$@" -o new
  expect_refused "$message"
  expect_no_file new
}
refuses 'lies-images-idx3: its header claims 1000 x 8 x 8 = 64000 bytes, but 640 follow' --data lies-images-idx3
cp test-images-idx3-ubyte.gz alone.gz
refuses 'alone.gz: its labels are not found' --data alone.gz
refuses 'has 300 labels for 90 images' --data test-images-idx3-ubyte.gz,train-labels-idx1-ubyte.gz
mkdir -p broken/a broken/b
cp pictures/left/0.png broken/a
refuses 'broken/b: holds no images' --data broken
for case in 'huge.png:has 100000 x 100000 pixels' 'cut.png:ends within the image' 'make.py:no PNG and no JPEG'; do
  cp "${case%%:*}" broken/b
  refuses "broken/b/${case%%:*}: .*${case#*:}" --data broken
  rm "broken/b/${case%%:*}"
done
refuses 'no IDX file and no folder' --data pictures/left/0.png
run "$COMERA" pretrain --model encoder-small --task image --data pictures --steps 1 -o new
expect_refused 'use --model vit-mini'
refuses 'image_size 8 is not a multiple of patch_size 3' --patch 3 "${data[@]}"
refuses '--patch 8: the whole image of 8 x 8 pixels is one patch; use 4 or less' --patch 8 "${data[@]}"
# Options that can have no effect on images, and what a model of images cannot do.
for option in '--text a' '--chat' '--data-format csv' '--tokenizer vocab.txt' '--case cased'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect: images have no texts" $option "${data[@]}"
done
for option in '--embedding-rank 4' '--embedding-order 3' '--tt-rows 9'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} is for models with tables, and vit-mini is a model of images; leave it out" $option "${data[@]}"
done
refuses '--positions is for models of texts, and vit-mini is a model of images' --positions 64 "${data[@]}"
for verb in 'predict whole' 'evaluate whole --data pictures' 'finetune whole --data pictures --steps 1 -o new'; do
  for option in '--text a' '--tokenizer vocab.txt' '--data-format csv'; do
    # shellcheck disable=SC2086
    run "$COMERA" $verb $option
    expect_refused "${option%% *} has no effect: images have no texts"
  done
done
run "$COMERA" predict whole --temperature 1
expect_refused 'temperature has no effect: whole is a model of images, and decoders alone continue texts'
run "$COMERA" evaluate whole --data pictures --stride 3
expect_refused 'stride has no effect: whole is a model of images and no decoder'
run "$COMERA" export whole -o whole.gguf --to gguf
expect_refused 'whole: is a model of images; --to gguf writes llama decoders; use --to onnx or safetensors'
run "$COMERA" evaluate whole --data pictures
expect_refused "unknown label 'left'"
run "$COMERA" tensorize dense -o other --ratio 1.3 --calibrate make.py
expect_refused 'reads images'
run "$COMERA" finetune whole --teacher dense --data train-images-idx3-ubyte.gz --steps 2 --quiet -o taught
expect_exit 0

finish
