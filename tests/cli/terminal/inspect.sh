#!/usr/bin/env bash
# comera inspect on folders of real checkpoints: every output format has the same values.
. "$(dirname "$0")/../expect.sh"

run "$COMERA" inspect missing
expect_refused 'missing'
run "$COMERA" inspect
expect_refused 'PATH is missing'
run "$COMERA" inspect a b c
expect_refused '3 paths came'
mkdir empty
run "$COMERA" inspect empty
expect_refused 'empty'
printf 'not safetensors at all' >broken.safetensors
run "$COMERA" inspect broken.safetensors
expect_refused 'broken.safetensors'

if [ -z "${COMERA_DATA:-}" ]; then
  echo "COMERA_DATA is not set: nothing was inspected"
  finish
fi
model=$COMERA_DATA/checkpoints/stories260K
for path in "$model" "$model/model.safetensors" "$COMERA_DATA/checkpoints/all-MiniLM-L6-v2"; do
  run "$COMERA" inspect "$path"
  expect_exit 0
  expect_out '^weight +kind +shape'
  expect_out '^model '
  expect_no_err
done
run "$COMERA" inspect "$model" --json
expect_exit 0
expect_json "d['schema_version'] == 1 and d['totals']['parameters'] == 260032 and d['totals']['ratio'] == 1"
expect_json "sum(l['parameters'] for l in d['layers']) == d['totals']['parameters'] \
    and sum(l['bytes'] for l in d['layers']) == d['totals']['bytes']"
expect_json "set('name kind shape form modes ranks parameters bytes ratio'.split()) <= set(d['layers'][0])"
run "$COMERA" inspect "$model" --format jsonl --sort parameters
expect_exit 0
expect_jsonl "[l['parameters'] for l in d] == sorted((l['parameters'] for l in d), reverse=True) \
    and sum(l['parameters'] for l in d) == 260032"
run "$COMERA" inspect "$model" --json --sort=-parameters
expect_json "[l['parameters'] for l in d['layers']] == sorted(l['parameters'] for l in d['layers'])"
run "$COMERA" inspect "$model" --format csv
expect_exit 0
cp .out model.csv
run python3 -c "import csv
rows = list(csv.DictReader(open('model.csv')))
print(sum(int(r['parameters']) for r in rows))"
expect_out '^260032$'
run "$COMERA" inspect "$model" --format md
expect_out '^\| weight .*\|$'
run "$COMERA" inspect "$model" --format html
expect_exit 0
expect_out '^<!doctype html>'
if grep -qE 'https?:|src=|href=|@import|url\(|<script' .out; then fail "the page refers to nothing outside"; fi
cp .out page.html
run python3 -c "
import html.parser
class Checker(html.parser.HTMLParser):
    stack = []
    def handle_starttag(self, tag, attrs):
        if tag != 'meta': self.stack.append(tag)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag): assert self.stack.pop() == tag, (tag, self.getpos())
c = Checker(); c.feed(open('page.html').read()); assert not c.stack"
expect_exit 0
run "$COMERA" inspect "$model" --sort parameter
expect_refused 'no such column; did you mean parameters'
run "$COMERA" inspect "$model" --filter 'nothing*'
expect_refused 'matches none of its weights'
run "$COMERA" inspect "$model" --filter norm --json
expect_json "all('norm' in l['name'] for l in d['layers']) and d['totals']['parameters'] == 260032"
run "$COMERA" inspect "$COMERA_DATA/checkpoints/stories15M" "$model"
expect_exit 0
expect_out 'A / B'
run "$COMERA" inspect "$COMERA_DATA/checkpoints/stories15M" "$model" --json
expect_json "len(d['totals']) == 2 and d['totals'][1]['parameters'] == 260032 \
    and any(l['b'] is None for l in d['layers'])"
finish
