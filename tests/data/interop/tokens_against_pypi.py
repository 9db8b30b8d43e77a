"""Compares ids and decoded text of every line of the text data with `tokenizers` and `sentencepiece` (PyPI).

usage: tokens_against_pypi.py PROGRAM DATA [--quick]      PROGRAM: the test binary tokenize_lines
"""
import glob
import os
import subprocess
import sys
import tempfile


def run(program, *words, text):
    result = subprocess.run([program, *words], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return result.stdout.decode().split("\n")[:-1]


def compare(what, lines, ours, theirs):
    if len(ours) != len(theirs):
        sys.exit(f"{what}: {len(ours)} lines instead of {len(theirs)}")
    for number, (line, a, b) in enumerate(zip(lines, ours, theirs), 1):
        if a != b:
            sys.exit(f"{what}: line {number} differs\n  line   {line!r}\n  ours   {a!r}\n  theirs {b!r}")
    print(f"{what}: {len(lines)} lines equal", flush=True)


def check(program, words, encode, decode, name, lines):
    text = "\n".join(lines) + "\n"
    theirs = encode(lines)
    ids = [" ".join(map(str, row)) for row in theirs]
    compare(f"{name}: encode", lines, run(program, "encode", *words, text=text), ids)
    compare(f"{name}: decode", ids, run(program, "decode", *words, text="\n".join(ids) + "\n"), decode(theirs))


def wordpiece(path, lower):
    from tokenizers import BertWordPieceTokenizer
    tokenizer = BertWordPieceTokenizer(path, lowercase=lower)
    return (lambda lines: [e.ids for e in tokenizer.encode_batch(lines, add_special_tokens=False)],
            lambda rows: tokenizer.decode_batch(rows))


def sentencepiece(path):
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    return lambda lines: model.encode(lines), lambda rows: model.decode(rows)


def texts(data, quick):
    """Yields name and lines of every file, the larger ones last. A quick run yields one line in 200 of all files."""
    names = ["text/*.zst", "wikitext2/*.zst", "ptb/*.zst", "mnli/*.zst", "snli/*.zst", "xnli/*.zst", "agnews/*.zst",
             "glue/*/*.zst", "code/*.zst"]
    paths = [path for name in names for path in glob.glob(os.path.join(data, name))]
    sample = []
    for path in sorted(paths, key=os.path.getsize):
        plain = subprocess.run(["zstd", "-dc", path], stdout=subprocess.PIPE, check=True).stdout.decode()
        lines = plain.rstrip("\n").replace("\r", " ").split("\n")
        if not quick:
            yield os.path.relpath(path, data), lines
        sample += lines[::200]
    if quick:
        yield "one line in 200", sample


def all_code_points():
    return [f"x{chr(c)}x {chr(c)}" for c in range(0x20, 0x110000) if not 0xD800 <= c < 0xE000 and chr(c) not in "\r\n"]


def code_point_vocab(folder, cased, quick):
    """Writes a vocabulary with every code point (a quick run: the first 12,288, and one in 50) as a piece, alone and
    inside a word, so the ids show normalisation."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for c in [*range(0x21, 0x3000), *range(0x3000, 0x110000, 50 if quick else 1)]:
        if 0xD800 <= c < 0xE000 or chr(c).isspace():
            continue
        pieces += [chr(c), "##" + chr(c)]
    path = os.path.join(folder, f"code_points_{cased}.txt")
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        out.write("\n".join(pieces) + "\n")
    return path


def check_code_points(program, quick):
    with tempfile.TemporaryDirectory() as folder:
        points = all_code_points()[::50 if quick else 1]
        for lower, case in ((True, "uncased"), (False, "cased")):
            path = code_point_vocab(folder, case, quick)
            check(program, [path, case], *wordpiece(path, lower), f"all code points, {case}", points)


def main():
    program, data, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    uncased = os.path.join(data, "tokenizers/bert-base-uncased-vocab.txt")
    tokenizers = [("uncased", [uncased, "uncased"], wordpiece(uncased, True)),
                  ("cased", [uncased, "cased"], wordpiece(uncased, False))]
    for model in sorted(glob.glob(os.path.join(data, "tokenizers/*.model"))):
        tokenizers.append((os.path.basename(model), [model], sentencepiece(model)))
    check_code_points(program, quick)
    for name, lines in texts(data, quick):
        for what, words, functions in tokenizers:
            check(program, words, *functions, f"{what} {name}", lines)


if __name__ == "__main__":
    main()
