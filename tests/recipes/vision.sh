#!/usr/bin/env bash
# recipes/vision.sh --smoke: every model is trained and evaluated, the results are a table and JSON, a second call trains
# nothing again; on Debian's Fashion-MNIST if it is installed, else on made images of the same form.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"

make_data() {
  mkdir made
  python3 - <<'PYTHON'
import gzip, pathlib, random, struct

draw = random.Random(1)
for part, count in (("train", 256), ("t10k", 64)):
    for name, sizes, content in (("images-idx3", [count, 28, 28], draw.randbytes(count * 784)),
                                 ("labels-idx1", [count], bytes(i % 10 for i in range(count)))):
        head = b"\0\0\x08" + bytes([len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
        pathlib.Path(f"made/{part}-{name}-ubyte.gz").write_bytes(gzip.compress(head + content))
PYTHON
}

run env FASHION="$PWD/none" "$tests/../recipes/vision.sh" "$PWD/folder"
expect_exit 2
expect_err 'none/train-images-idx3-ubyte.gz cannot be read. Get Fashion-MNIST by .apt-get install dataset-fashion-mnist'
expect_no_file folder

fashion=/usr/share/datasets/fashion-mnist
[ -d $fashion ] || { echo 'dataset-fashion-mnist is not installed: the recipe runs on made images' >&2 && make_data && fashion=$PWD/made; }
export FASHION=$fashion
rows=()
for form in dense tt lowrank; do
  for policy in keep int8 block; do rows+=("^\| $form \| $policy \|"); done
done
check_recipe vision "${rows[@]}"
python3 - folder/results.json <<'CHECK' || fail 'results.json has every form and policy, and int8 saves bytes'
import json
import sys

results = json.load(open(sys.argv[1]))
rows = {(row["form"], row["activations"]): row for row in results["rows"]}
assert len(rows) == 9
assert all(0 <= row["accuracy"] <= 1 and row["step_ms"] > 0 and row["peak_bytes"] > 0 for row in rows.values())
for form in ("dense", "tt", "lowrank"):
    assert rows[form, "int8"]["saved_bytes"] < rows[form, "keep"]["saved_bytes"]
    assert rows[form, "block"]["saved_bytes"] < rows[form, "keep"]["saved_bytes"]
assert rows["dense", "keep"]["parameters"] == 2684554
CHECK
finish
