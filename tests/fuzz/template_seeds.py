"""Seeds and dictionary of fuzz_template."""
import pathlib

_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data/templates"
TEMPLATES = [path.read_bytes() for path in sorted(_FOLDER.glob("*.jinja"))] + [
    b"{% macro m(a, b=1) %}{{ a ~ b }}{% endmacro %}{{ m('x') | upper }}{% set ns = namespace(a=[1]) %}{% set ns.a = ns.a + "
    b"[2] %}{{ ns.a | join('-') }}",
    b"{% for a, b in {'x': 1}.items() %}{{ loop.index }}{% if loop.last %}{% break %}{% endif %}{% else %}-{% endfor %}",
    b"{%- raw -%} {{ }} {%- endraw +%}{# c -#}{{ messages[::-1] | map(attribute='role') | list | tojson(indent=2) }}",
    b"{% generation %}{{ 'abc'[1:] * 3 }}{% endgeneration %}{% filter trim %} x {% endfilter %}",
    b"{{ 1 if x is not defined else [1.5e3, (2,), {'k': none}] }}{{ 'a b'.split()[0].strip('x').replace('a', 'b', 1) }}",
    b"{% for i in range(9) %}{% set x = 'a' * 2 ** i %}{{ x }}{% endfor %}{{ '\\u00e9\\x41' }}{{ 7 // -2 % 3 }}",
    b"{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
]
# The first is above the bound, the others end by a bound of work, of nesting or of text.
LARGE_TEMPLATES = [
    b"{{ 1 }}" * 200_000,
    b"{{ 1 }}" * 140_000,
    b"{{ " + b"(" * 300_000 + b")" * 300_000 + b" }}",
    b"{{ x" + b".a" * 400_000 + b" }}",
    b"{{ 1" + b"+1" * 400_000 + b" }}",
    b"{% if x %}" * 90_000,
    b"{% set ns = namespace(s='x') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    b"{% set ns = namespace(s=[1]) %}{% for i in range(99999) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    b"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    b"{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(0) }}",
    b"{{ '" + b"a" * 900_000 + b"' * 99999999 }}",
]
WORDS = ["{%", "%}", "{{", "}}", "{#", "#}", "-%}", "{%-", "{%+", "for", "endfor", "if", "elif", "else", "endif", "set",
         "endset", "macro", "endmacro", "filter", "endfilter", "raw", "endraw", "generation", "endgeneration", "break",
         "continue", " in ", " is ", " not ", "defined", "loop.", "namespace(", "messages", "content", "role", "range(",
         "tojson", "trim", "join(", "map(", "selectattr(", "default(", "split(", "strip(", ".items()", "[1:]", "[::-1]",
         "strftime_now(", "raise_exception(", "**", "//", "~", "|"]
