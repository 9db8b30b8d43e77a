#!/usr/bin/env bash
# recipes/minilm.sh checks the program before it downloads anything: a named program must exist, and without a name it
# is built. Then --smoke, with a made checkpoint in place of the downloaded one and made answers of ONNX Runtime.
. "$(dirname "$0")/../cli/expect.sh"
# shellcheck source=shared/product.sh
. "$tests/recipes/shared/product.sh"
mkdir -p tree/recipes tree/third_party bin
cp -r "$tests/../recipes/minilm.sh" "$tests/../recipes/shared" tree/recipes/
# Stubs for the scripts that build or download: they print their name and stop.
printf '#!/bin/sh\necho "install.sh $*"\n' >tree/third_party/install.sh
printf '#!/bin/sh\necho "make $*"\nmkdir -p build\nprintf "#!/bin/sh\\n" >build/comera\nchmod +x build/comera\n' >bin/make
printf '#!/bin/sh\necho "python3 $*"\nexit 3\n' >bin/python3
chmod +x tree/third_party/install.sh bin/make bin/python3

run env PATH="$work/bin:$PATH" COMERA=/nowhere/comera tree/recipes/minilm.sh out
expect_refused 'COMERA=/nowhere/comera is no program; build it with make'
expect_no_file tree/out
run env PATH="$work/bin:$PATH" COMERA= tree/recipes/minilm.sh out
expect_exit 3
expect_equal "$(head -n 2 .out | paste -sd ' ')" 'install.sh build recipes make comera'
expect_out '^python3 -m venv'
run env PATH="$work/bin:$PATH" COMERA= tree/recipes/minilm.sh out
expect_exit 3
expect_equal "$(head -n 1 .out)" 'python3 -m venv build/venv-minilm'

expect_help minilm
made_nouns
made_sts
made_encoder folder/dense
cat >python <<'STUB'
#!/usr/bin/env bash
case "$*" in
  *onnxruntime.__version__*) echo 0.0+made ;;
  *minilm_table.py*) # a row for each graph that exists
    printf '| model | bytes |\n|---|---:|\n'
    for name; do
      [ ! -s "$2/onnx/$name/model.onnx" ] || echo "| $name | $(stat -c %s "$2/onnx/$name/model.onnx") |"
    done
    ;;
esac
STUB
chmod +x python
export PYTHON=$PWD/python
check_recipe minilm '^\| dense \| [0-9]+ \|$' '^\| small/ratio-1.6 \| [0-9]+ \|$' '^\| healed/ratio-1.6 \| [0-9]+ \|$'
[ "$(stat -c %s folder/onnx/small/ratio-1.6/model.onnx)" -lt "$(stat -c %s folder/onnx/dense/model.onnx)" ] ||
  fail "the graph of the smaller model is smaller"
expect_equal "$(wc -l <folder/sts-dev.tsv)" 61
finish
