#!/usr/bin/env bash
# Conversations by the chat template of a model: pretrain, evaluate, predict, finetune and tensorize with --chat; refused
# templates and rows.
. "$(dirname "$0")/../expect.sh"

python3 - <<'PY'
import json
with open("talks.jsonl", "w") as talks, open("text.txt", "w") as text:
    for i in range(120):
        color, answer = [("red", "stop"), ("green", "go")][i % 2]
        messages = [{"role": "user", "content": f"the light is {color}"}, {"role": "assistant", "content": answer}]
        print(json.dumps({"messages": messages}), file=talks)
        print("user: the light is", color, "assistant:", answer, "system: rules", answer, color, file=text)
template = ("{% for m in messages %}{{ m.role }}:\n{{ m.content | trim }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:\n{% endif %}")
open("template.jinja", "w").write(template)
PY
run "$COMERA" tokenizer train --data text.txt --kind bpe --frame decoder --vocab-size 300 -o tokenizer --quiet
expect_exit 0
model=(--model llama-6m --task clm --form dense --layers 2 --hidden 32 --heads 4 --key-heads 2 --intermediate 48
  --positions 64)
run "$COMERA" pretrain "${model[@]}" --data talks.jsonl --chat --tokenizer tokenizer --seq 32 --steps 2 -o none
expect_refused 'has no chat template'
expect_no_file none
cp template.jinja tokenizer/chat_template.jinja
run "$COMERA" pretrain "${model[@]}" --data talks.jsonl --chat --tokenizer tokenizer --seq 32 --batch 8 --steps 150 \
  --lr 1e-2 --schedule constant --seed 3 -o run --quiet --json
expect_exit 0
expect_same_bytes run/chat_template.jinja template.jinja

# The answers alone are predicted, and they are nearly certain.
run "$COMERA" evaluate run --data talks.jsonl --chat --seq 32 --json
expect_exit 0
expect_json "d['perplexity'] < 1.3"
cp "$work/.out" chat.json
run "$COMERA" evaluate run --data talks.jsonl --text messages --seq 32
expect_refused "'messages' is a list or an object, a string is wanted"

# A line is a user's message or a conversation; the answer alone is printed.
run_with $'the light is red\nthe light is green\n[{"role": "user", "content": "the light is red"}]\n' \
  "$COMERA" predict run --chat --max-tokens 4 --json
expect_exit 0
expect_json "[t['text'].split()[0] for t in d['texts']] == ['stop', 'go', 'stop']"
expect_json "d['texts'][0]['prompt'] == 'user:\nthe light is red\nassistant:\n' == d['texts'][2]['prompt']"
run_with 'hi' "$COMERA" predict run --chat --system 'be good' --max-tokens 2 --json
expect_exit 0
expect_json "d['texts'][0]['prompt'] == 'system:\nbe good\nuser:\nhi\nassistant:\n'"
run "$COMERA" predict run --chat --data talks.jsonl --max-tokens 1 --jsonl
expect_exit 0
expect_jsonl "len(d) == 120 and d[0]['prompt'] == 'user:\nthe light is red\nassistant:\nstop\nassistant:\n'"
run_with '[{"role": 1}]' "$COMERA" predict run --chat
expect_refused 'stdin:1: a message is no object with a role'
run_with 'hi' "$COMERA" predict run --system x
expect_refused 'system goes with --chat'

run "$COMERA" finetune run --task clm --data talks.jsonl --chat --seq 32 --batch 8 --steps 3 -o tuned --quiet
expect_exit 0
expect_same_bytes tuned/chat_template.jinja template.jinja
run "$COMERA" tensorize run -o small --ratio 1.5 --exclude '*embed*' --calibrate talks.jsonl --chat \
  --calibrate-tokens 2000 --quiet
expect_exit 0
expect_same_bytes small/chat_template.jinja template.jinja
run "$COMERA" tensorize run -o other --ratio 1.5 --exclude '*embed*' --calibrate talks.jsonl --quiet
expect_exit 2
expect_no_file other

# A GGUF file holds tokenizer and template; it answers as the folder does.
run "$COMERA" predict run --chat --data talks.jsonl --max-tokens 4 --jsonl
expect_exit 0
cp "$work/.out" folder.jsonl
run "$COMERA" export run -o run.gguf --quiet
expect_exit 0
run "$COMERA" predict run.gguf --chat --data talks.jsonl --max-tokens 4 --jsonl
expect_exit 0
expect_same_bytes "$work/.out" folder.jsonl
run "$COMERA" evaluate run.gguf --data talks.jsonl --chat --seq 32 --json
expect_exit 0
expect_json "abs(d['loss'] / $(python3 -c 'import json; print(json.load(open("chat.json"))["loss"])') - 1) < 1e-5"
run "$COMERA" tensorize run.gguf -o small-gguf --ratio 1.5 --exclude '*embed*' --calibrate talks.jsonl --chat \
  --calibrate-tokens 2000 --quiet
expect_exit 0

# Templates that do not end, are not read, or refuse a conversation.
printf '{%% for a in range(99999) %%}{%% for b in range(99999) %%}{%% endfor %%}{%% endfor %%}' >run/chat_template.jinja
run_with 'hi' "$COMERA" predict run --chat
expect_refused 'line 1 of the chat template: takes more than 10000000 steps, so it may have no end'
printf '{%% for a in range(99999) %%}{{ "xxxxxxxx" * 9999 }}{%% endfor %%}' >run/chat_template.jinja
run_with 'hi' "$COMERA" predict run --chat
expect_refused 'makes a text of more than 32 MiB, so it may have no end'
printf '\n{{ messages | batch(2) }}' >run/chat_template.jinja
run_with 'hi' "$COMERA" predict run --chat
expect_refused "line 2 of the chat template: the filter 'batch' is not read"
printf '{{ raise_exception("only tools") }}' >run/chat_template.jinja
run_with 'hi' "$COMERA" predict run --chat
expect_refused 'refuses this conversation: only tools'
finish
