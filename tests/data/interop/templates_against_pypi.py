"""Compares rendered chat templates with Jinja as `transformers` sets it up: the templates of tests/data/templates and of
further files on many conversations, and small templates that use every part of the language.

usage: templates_against_pypi.py PROGRAM [FILE.jinja ...]      PROGRAM: the test binary render_templates
"""
import glob
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["TZ"] = "UTC"
time.tzset()

import jinja2
from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Tells the weather \u2014 of a \"place\"",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "weather", "arguments": {"place": "K\u00f6ln", "days": 2, "x": 1.5}}}]}
TEXTS = ["Hello", "", "  padded \n", "two\nlines\n", "caf\u00e9 \u65e5\u672c\u8a9e \U0001F642", "<|im_end|> {{ x }} {% y %}",
         "<think>\nwell\n</think>\n\nyes", "tab\tand \\ and ' and \"", "\u00a0no-break\u2003wide "]


def conversations():
    user, system = (lambda t: {"role": "user", "content": t}), (lambda t: {"role": "system", "content": t})
    answer = lambda t: {"role": "assistant", "content": t}
    yield []
    for a, b in itertools.product(TEXTS, TEXTS):
        yield [user(a)]
        yield [system(b), user(a)]
        yield [user(a), answer(b)]
        yield [system(a), user(b), answer(a), user(b), answer(b)]
    yield [answer("first")]
    yield [user("a"), user("b")]
    yield [system("only")]
    yield [user("Weather?"), CALL, {"role": "tool", "content": "sunny"}, {"role": "tool", "content": {"t": [1, None]}},
           answer("Sunny.")]
    yield [user("Weather?"), {**CALL, "content": "I look."}, {"role": "tool", "content": "sunny"}]
    yield [{"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image"}, "this?"]}]
    yield [{"role": "user"}, {"role": "assistant", "content": None, "reasoning_content": "hm"}]


def variables():
    for messages in conversations():
        for prompt in (False, True):
            base = {"messages": messages, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
            yield base
            if len(messages) != 2:
                yield {**base, "tools": TOOLS, "enable_thinking": False}
            yield {**base, "tools": None, "documents": None}


SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 // 3 % 2 }}|{{ 7 / 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 2 ** 10 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 2 ** -1 }}
{{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.1 + 0.2 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 3.0 }}
{{ 'a' ~ 1 ~ none ~ true ~ [1, 'x'] ~ {'k': 1.0} }}|{{ 'a' 'b' "c" }}|{{ 'a\tb\x41\u00e9\101\q\'' }}
{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abcdef'[1:4] }}{{ 'abcdef'[::-1] }}{{ 'abcdef'[::2] }}{{ 'abcdef'[-3:] }}{{ 'abc'[5:] }}{{ 'abcdef'[4:1:-1] }}
{{ [1,2,3][1:] }}{{ [1,2,3][:-1] }}{{ (1,2) }}{{ (1,) }}{{ () }}{{ [] }}{{ {} }}{{ {'a': [1, {'b': none}]} }}
{{ 'it\'s' }}{{ ['it\'s', "q\"", 'a\nb', 'é', '\u200b', '\x07', 'both \' and "'] }}
{{ not x }}{{ x is defined }}{{ x is not defined }}{{ x is undefined }}{{ x | default('d') }}{{ '' | default('e') }}{{ '' | default('e', true) }}{{ none | default('n') }}
{{ x }}{{ x | length }}{{ x | list }}{{ x ~ 'y' }}{{ x == y }}{{ x == 1 }}{{ 1 in x }}{{ x or 'or' }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 1 == 1.0 }}{{ true == 1 }}{{ 'a' in 'abc' }}{{ 1 in [1] }}{{ 'k' in {'k': 1} }}{{ 1 not in [2] }}
{{ 'a' if true }}{{ 'a' if false }}{{ 'a' if false else 'b' if false else 'c' }}
{% for i in range(5) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }},{% endfor %}
{% for i in range(10) if i is odd %}{{ i }}{{ loop.last }}{% else %}none{% endfor %}{% for i in [] %}{% else %}none{% endfor %}
{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'héy' %}{{ c }}.{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}{% if true %}{% set a = 9 %}{% endif %}{{ a }}
{% set ns = namespace(n=0, s='x') %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.q }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set x %}block {{ a }}{% endset %}[{{ x }}]{% set y | upper | trim %} low {% endset %}[{{ y }}]
{% macro m(a, b='d', c=none) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m() }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{% set q = 5 %}{% macro g() %}{{ q }}{% endmacro %}{{ g() }}{% set q = 6 %}{{ g() }}
{{ ' a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xya'.lstrip('yx') }}|{{ 'a  b c'.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ ' a b c '.split(none, 1) }}|{{ ' a b c '.rsplit(None, 1) }}
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abcabc'.replace('b', 'X') }}{{ 'abcabc'.replace('b', 'X', 1) }}{{ 'aXb'.lower() }}{{ 'aß'.upper() }}{{ 'they\'re HERE'.title() }}{{ 'hELLO'.capitalize() }}{{ 'a-b'.find('-') }}{{ 'aaa'.count('a') }}{{ '-'.join(['a', 'b']) }}
{{ 'a\nb\r\nc'.splitlines() }}{{ '12'.isdigit() }}{{ 'a12'.removeprefix('a') }}{{ 'a12'.removesuffix('2') }}{{ 'abcb'.rfind('b') }}
{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 2) }}{{ {'a': 1, 'b': 2}.keys() | list }}{{ {'a': 1}.values() | list }}{{ {'a': 1}.items() | list }}{{ {'a': 1}.a }}{{ {'a': 1}['a'] }}{{ {'a': {'b': 3}}.a.b }}
{{ ' x ' | trim }}|{{ 'abc' | upper }}|{{ 'foo bar-baz' | title }}|{{ 'fOO' | capitalize }}|{{ [1, 2, 3] | join(', ') }}|{{ [1, 2] | first }}{{ [1, 2] | last }}{{ 'abc' | first }}{{ [] | first }}|{{ [3, 1] | reverse | list }}{{ 'abc' | reverse }}
{{ '42' | int }}{{ 'x' | int }}{{ 'x' | int(7) }}{{ ' 7 ' | int }}{{ '3.9' | int }}{{ 3.9 | int }}{{ '1.5' | float }}{{ 5 | string ~ 'a' }}{{ -5 | abs }}{{ 5 | float }}{{ none | int }}
{{ [{'a': 1}, {'a': 2}] | map(attribute='a') | list }}{{ ['a', 'b'] | map('upper') | join }}{{ [1, 2, 3] | select('odd') | list }}{{ [1, 2, 3] | reject('odd') | list }}{{ [{'r': 'u', 'n': 1}, {'r': 'v'}] | selectattr('r', 'equalto', 'u') | list }}{{ [{'a': 1}, {}] | selectattr('a', 'defined') | list | length }}{{ [{'a': 0}, {'a': 1}] | rejectattr('a') | list }}
{{ {'a': 'é"\n\u2028<', 'b': [1, 2.5, true, none], 'c': {}} | tojson }}{{ [] | tojson }}{{ {'b': 1, 'a': [1, {'z': []}]} | tojson(indent=2) }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}{{ 'é\U0001F642' | tojson(ensure_ascii=true) }}{{ [1, 2] | tojson(separators=(',', ':')) }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\nb' | replace('\n', ' ') }}|{{ [1, [2]] | string }}
{{ 1 is number }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is integer }}{{ true is boolean }}{{ none is none }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is iterable }}{{ {} is iterable }}{{ 1 is iterable }}{{ 3 is divisibleby 3 }}{{ 2 is even }}{{ 'A' is upper }}{{ 1 is eq 1 }}{{ 1 is in [1] }}{{ 1 is gt 0 }}{{ true is true }}{{ 1 is true }}{{ none is sameas none }}
{%- if true -%}   a   {%- endif %}   b   {{- ' c ' -}}   d {#- comment -#}   e
  {% if true %}  
  line
  {% endif %}  
  {%+ if true %}x{% endif +%}
  y
a {# c #}
b
{% raw %}{{ not }} {% tag %}{% endraw %} after
x{%- raw -%}  {{ a }}  {%- endraw -%}  y
{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {'b': {}}} }}
{{ 'a' | default }}{{ ('a', 'b') | join('-') }}{{ [1, 2] + [3] }}{{ [0] * 3 }}{{ 'ab' * 2 }}{{ -(1 + 2) }}{{ +3 }}{{ - 3 | abs }}{{ 2 * 3 | string }}
{{ not true or true }}{{ not (1 == 2) and 3 }}{{ 1 and 2 }}{{ 0 or 'z' }}{{ 1 if 'a' in ['a'] and 'b' not in 'c' else 2 }}
{% filter upper %}up {{ 'x' }}{% endfilter %}{% generation %}gen{% endgeneration %} tail {% generation %}é{{ 1 }}{% endgeneration %}
{% for i in [1, 2] %}{% for j in [1, 2] %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}
{% if x is defined and x %}a{% elif y is not defined or z %}b{% else %}c{% endif %}
{{ range(3) | list }}{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | list }}{{ dict(a=1, b='c') }}
{{ strftime_now('%Y') | length }}{{ raise_exception is defined }}
{{ messages[5].role }}
{{ x.y }}
{{ 'a' + 1 }}
{{ raise_exception('no') }}
{{ none | length }}
{{ [1] | join(1) ~ [none] | join }}{% for a in [[1, 2], [3, 4]] %}{{ a[0] }}{{ a.1 }}{% endfor %}{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}
{{ "}}" }}{{ '%}' }}{% set a = '{{' %}{{ a }}{{ '{%' }}
{%- for m in [{'role': 'user', 'content': ' hi '}] %}
  {{- m['role'] | capitalize + ': ' + m.content | trim + '\n' -}}
{% endfor %}
{{ 'x' is string and 'y' }}{{ 'ABC' | lower | upper | length }}{{ (1, 2)[0] }}{{ {'a': 1} == {'a': 1} }}{{ [1] != [1] }}{{ 'abc' | list }}
{{ loop is defined }}{% for i in [1] %}{{ loop is defined }}{% endfor %}{{ {'items': 1}['items'] }}
{{ [1, 2, 3] | length is gt 2 }}{{ 'a,b' .split(',')[0] }}{{ ('a' ~ 'b').upper() }}{{ [{'a': [1, 2]}][0].a[-1] }}
{% set x = [1] %}{% set x = x + [2] %}{{ x }}{% set m = {'a': 1} %}{{ m.b is defined }}{{ m.b | default('q') }}{{ m['b'] is none }}
"""


def snippets():
    """Templates of one line each; a line that ends with a tag's middle goes on in the next ones."""
    lines = SNIPPETS.strip("\n").split("\n")
    yield from lines
    for size in (2, 3, 5):
        for begin in range(0, len(lines)):
            yield "\n".join(lines[begin:begin + size])


def theirs(template, values):
    try:
        text, generated = [], []
        compiled = chat_template_utils._compile_jinja_template(template)
        spans = []
        with compiled.environment.activate_tracker(text, spans):
            for part in compiled.generate(**values):
                text.append(part)
        return "".join(text), [tuple(s) for s in spans]
    except Exception as error:
        return error, None


def ours(program, template, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8", newline="") as file:
        file.write(template)
        file.flush()
        given = "".join(json.dumps(row) + "\n" for row in rows)
        out = subprocess.run([program, file.name, str(int(time.time()))], input=given.encode(), stdout=subprocess.PIPE,
                             check=True).stdout.decode()
    return [json.loads(line) for line in out.rstrip("\n").split("\n")]


FAILED = []


def differs(message):
    FAILED.append(message)
    if len(FAILED) <= 20:
        print(message, flush=True)


def compare(program, name, template, rows):
    """Returns (number of equal texts, number of errors of both)."""
    texts = errors = 0
    for row, answer in zip(rows, ours(program, template, rows)):
        text, spans = theirs(template, row)
        if isinstance(text, Exception):
            if "error" not in answer:
                differs(f"{name}: ours gives {answer['text']!r}, theirs {text!r}\n{row}\n{template}")
            errors += 1
            continue
        if answer.get("text") != text:
            differs(f"{name}: texts differ\n ours   {answer!r}\n theirs {text!r}\n{json.dumps(row)[:500]}\n{template[:500]}")
            continue
        flat = answer["generated"]
        marked = [text.encode()[a:b].decode() for a, b in zip(flat[::2], flat[1::2])]
        if spans is not None and marked != [text[a:b] for a, b in spans]:
            differs(f"{name}: parts of generation differ: {marked} and {[text[a:b] for a, b in spans]}")
        texts += 1
    return texts, errors


def main():
    program = sys.argv[1]
    rows = list(variables())
    for path in sorted(glob.glob(os.path.join(HERE, "../templates/*.jinja"))) + sys.argv[2:]:
        template = open(path, encoding="utf-8", newline="").read()
        texts, errors = compare(program, os.path.basename(path), template, rows)
        print(f"{os.path.basename(path)}: {texts} texts equal, {errors} refused by both", flush=True)
        if texts < len(rows) / 10:
            sys.exit(f"{path}: nearly every conversation is refused")
    texts = errors = 0
    for number, template in enumerate(snippets()):
        a, b = compare(program, f"snippet {number}", template, [{"messages": []}])
        texts, errors = texts + a, errors + b
    print(f"snippets: {texts} texts equal, {errors} refused by both")
    sys.exit(f"{len(FAILED)} differences" if FAILED else 0)


if __name__ == "__main__":
    main()
