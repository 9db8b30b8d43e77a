"""Compares ids, offsets and decoded text of tokenizer.json files with `tokenizers` (PyPI): the tokenizers of gpt2,
llama, albert and bert, the splits of newer models, and one tokenizer for each component.

usage: tokenizer_json_against_pypi.py PROGRAM DATA [--quick | --random]      PROGRAM: the test binary tokenize_lines

--random: only the lines of random code points, of which each fourth has special tokens.
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

from tokens_against_pypi import texts

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


SHORT = 4000  # merges of the vocabulary on which single components are compared


def gpt2(data, split=None, merges=None):
    """The tokenizer of gpt2, of its first `merges` merges if that is given."""
    vocab = json.load(open(os.path.join(data, "tokenizers/gpt2-vocab.json"), encoding="utf-8"))
    text = open(os.path.join(data, "tokenizers/gpt2-merges.txt"), encoding="utf-8").read()
    lines = [line for line in text.split("\n") if line and not line.startswith("#version")][:merges]
    if merges is not None:
        made = {"".join(line.split()) for line in lines}
        kept = [piece for piece in sorted(vocab, key=vocab.get) if len(piece) == 1 or piece in made]
        vocab = {piece: number for number, piece in enumerate(kept)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(line.split()) for line in lines]))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*(split or []), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def llama2(data):
    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(data, "tokenizers/llama2-32k-tokenizer.model"))
    scores = {model.id_to_piece(i): (model.get_score(i), i) for i in range(model.get_piece_size())}
    merges = []
    for piece, (score, number) in scores.items():
        for cut in range(1, len(piece)):
            if piece[:cut] in scores and piece[cut:] in scores:
                merges.append((-score, scores[piece[:cut]][1], scores[piece[cut:]][1], piece[:cut], piece[cut:]))
    merges.sort()
    tokenizer = Tokenizer(models.BPE({piece: number for piece, (_, number) in scores.items()},
                                     [(left, right) for *_, left, right in merges], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def varint(raw, at):
    value = shift = 0
    while True:
        value |= (raw[at] & 127) << shift
        shift += 7
        at += 1
        if raw[at - 1] < 128:
            return value, at


def field(raw, wanted):
    """The first field `wanted` (bytes) of a protobuf message."""
    at = 0
    while at < len(raw):
        key, at = varint(raw, at)
        if key & 7 == 2:
            size, at = varint(raw, at)
            if key >> 3 == wanted:
                return raw[at:at + size]
            at += size
        elif key & 7 == 0:
            _, at = varint(raw, at)
        else:
            at += 4 if key & 7 == 5 else 8
    return b""


def unigram(path, cased):
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    vocab = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
    tokenizer = Tokenizer(models.Unigram(vocab, model.unk_id(), False))
    charsmap = field(field(open(path, "rb").read(), 3), 2)
    steps = [normalizers.Precompiled(charsmap)] if charsmap else []
    if not cased:
        steps += [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


def bert(data, lower):
    pieces = open(os.path.join(data, "tokenizers/bert-base-uncased-vocab.txt"), encoding="utf-8").read().split("\n")
    vocab = {piece: number for number, piece in enumerate(pieces) if piece}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def trained(lines, model, trainer, pre, decoder=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def with_normalizer(data, normalizer):
    tokenizer = gpt2(data, merges=SHORT)
    tokenizer.normalizer = normalizer
    return tokenizer


def with_added(data):
    tokenizer = gpt2(data, merges=SHORT)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([AddedToken("alone", single_word=True), AddedToken("The", normalized=True),
                          AddedToken("and", lstrip=True, normalized=False),
                          AddedToken("of", rstrip=True, normalized=False), AddedToken("offer", normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), "<|im_start|>", "<|im_end|>"])
    return tokenizer


def real(data):
    yield "gpt2", gpt2(data)
    yield "smollm", gpt2(data, [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    for name, pattern in (("llama3", LLAMA3), ("qwen2", QWEN2), ("gpt4o", GPT4O)):
        yield name, gpt2(data, [pre_tokenizers.Split(Regex(pattern), "isolated")])
    trims = gpt2(data)
    trims.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trims.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True,
                                                        add_prefix_space=True)
    yield "roberta", trims
    yield "llama2", llama2(data)
    for model in ("albert-30k-spiece.model", "sp-test-unigram-1k.model"):
        yield model, unigram(os.path.join(data, "tokenizers", model), model.startswith("sp"))
    yield "bert uncased", bert(data, True)
    yield "bert cased", bert(data, False)


def components(data, lines):
    for normalizer in (normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(),
                       normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip(),
                       normalizers.Strip(left=False), normalizers.Replace("e", "ee"),
                       normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace(Regex(r"[0-9]+"), ""),
                       normalizers.Prepend("_"), normalizers.Nmt(), normalizers.BertNormalizer(),
                       normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])):
        yield f"normalizer {normalizer}"[:60], with_normalizer(data, normalizer)
    for behaviour in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            split = pre_tokenizers.Split(Regex(r"\d|[aeiou]"), behaviour, invert)
            yield f"split {behaviour} {invert}", gpt2(data, [split], SHORT)
        yield f"punctuation {behaviour}", gpt2(data, [pre_tokenizers.Punctuation(behaviour)], SHORT)
    for pre in (pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(False),
                pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Split(" ", "merged_with_next"),
                pre_tokenizers.BertPreTokenizer(), pre_tokenizers.FixedLength(3),
                pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Metaspace(prepend_scheme="never"),
                pre_tokenizers.Metaspace(split=False)):
        yield f"pre-tokenizer {pre}"[:60], gpt2(data, [pre], SHORT)
    yield "added tokens", with_added(data)
    yield "word level", trained(lines, models.WordLevel(unk_token="[UNK]"),
                                trainers.WordLevelTrainer(vocab_size=4000, special_tokens=["[UNK]"]),
                                pre_tokenizers.Whitespace())
    yield "bpe with suffix", trained(lines, models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True),
                                     trainers.BpeTrainer(vocab_size=3000, special_tokens=["<unk>"],
                                                         end_of_word_suffix="</w>"),
                                     pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder())
    yield "bpe with prefix", trained(lines, models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
                                     trainers.BpeTrainer(vocab_size=3000, special_tokens=["<unk>"],
                                                         continuing_subword_prefix="##"),
                                     pre_tokenizers.Whitespace(), decoders.WordPiece())
    whole = trained(lines, models.BPE(ignore_merges=True), trainers.BpeTrainer(vocab_size=3000),
                    pre_tokenizers.Whitespace())
    yield "bpe ignores merges, drops unknown", whole
    yield "unigram", trained(lines, models.Unigram(), trainers.UnigramTrainer(vocab_size=2000, unk_token="<unk>",
                                                                             special_tokens=["<unk>"]),
                             pre_tokenizers.Metaspace(), decoders.Metaspace())


def run(program, *words, text):
    result = subprocess.run([program, *words], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {result.returncode}: {result.stderr.decode()}")
    return result.stdout.decode().split("\n")[:-1], result.stderr.decode().strip()


def byte_places(line):
    """Position in UTF-8 of each character, and of the end."""
    places = [0]
    for character in line:
        places.append(places[-1] + len(character.encode()))
    return places


def offsets_of(encoding, line):
    places = byte_places(line)
    return " ".join(f"{i}:{places[b]}:{places[e]}" for i, (b, e) in zip(encoding.ids, encoding.offsets))


def check(program, name, tokenizer, lines, folder):
    """Returns False and prints the first difference if there is one."""
    path = os.path.join(folder, "tokenizer.json")
    tokenizer.save(path)
    encodings = tokenizer.encode_batch(lines, add_special_tokens=False)
    ours, speed = run(program, "offsets", path, text="\n".join(lines) + "\n")
    theirs = [offsets_of(encoding, line) for encoding, line in zip(encodings, lines)]
    ids = [" ".join(map(str, e.ids)) for e in encodings]
    decoded, _ = run(program, "decode", path, text="\n".join(ids) + "\n")
    escaped = [tokenizer.decode(e.ids).replace("\n", " ") for e in encodings]
    for what, given, a, b in (("ids and offsets", lines, ours, theirs), ("text", ids, decoded, escaped)):
        if len(a) != len(b):
            print(f"{name}: {what}: {len(a)} lines instead of {len(b)}")
            return False
        differing = [i for i in range(len(a)) if a[i] != b[i]]
        if differing:
            i = differing[0]
            print(f"{name}: {what}: {len(differing)} of {len(a)} lines differ, the first is line {i + 1}\n"
                  f"  line   {given[i]!r}\n  ours   {a[i]!r}\n  theirs {b[i]!r}", flush=True)
            return False
    print(f"{name}: {len(lines)} lines equal, {speed}", flush=True)
    return True


def known(code):
    return unicodedata.category(chr(code)) not in ("Cn", "Cs") and chr(code) not in "\r\n"


def random_lines(count):
    """Lines of code points of one block each, between blanks and letters. Python's Unicode is that of PCRE2 10.42."""
    draw = random.Random(7)
    points = [code for code in range(0x20, 0x30000) if known(code)]
    lines = []
    for _ in range(count):
        start = draw.randrange(len(points))
        near = [chr(points[(start + draw.randrange(40)) % len(points)]) for _ in range(draw.randrange(1, 12))]
        lines.append("".join(c + draw.choice(["", "", "", " ", "a", "1", "'s", "  ", "\u0301", "\u200d"]) for c in near))
    return lines


def with_special(tokenizer, lines):
    """Each fourth line with one to three of the tokenizer's added tokens at random places."""
    added = [token.content for _, token in sorted(tokenizer.get_added_tokens_decoder().items())]
    draw = random.Random(8)
    out = list(lines)
    for i in range(0, len(out) if added else 0, 4):
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(len(out[i]) + 1)
            out[i] = out[i][:place] + draw.choice(added) + out[i][place:]
    return out


def well_placed(tokenizer, lines):
    """Without lines whose first character a charsmap removes: `tokenizers` shifts the offsets of all others in them."""
    if "Precompiled" not in str(tokenizer.normalizer):
        return lines
    return [line for line in lines if not line or tokenizer.normalizer.normalize_str(line[0])]


def main():
    program, data, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    samples = [("random code points", random_lines(1000 if quick else 100000))]
    for name, lines in texts(data, quick or "--random" in sys.argv):
        samples.append((name, lines[::16] if quick else lines))
    learn_from = samples[-1][1][:20000]
    if "--random" in sys.argv:
        samples = samples[:1]
    if quick:  # each sample costs the start of a tokenizer on both sides
        samples = [("a sample", [line for _, lines in samples for line in lines])]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in [*real(data), *components(data, learn_from)]:
            for number, (what, lines) in enumerate(samples):
                if number == 0:
                    lines = with_special(tokenizer, well_placed(tokenizer, lines))
                good = check(program, f"{name}, {what}", tokenizer, lines, folder) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
