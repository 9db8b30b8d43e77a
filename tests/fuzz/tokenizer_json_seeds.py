"""Seeds of fuzz_tokenizer_json and fuzz_expression: one small tokenizer for each component, and inputs of megabytes."""

import json

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
TEXT = "Hello, wörld! It's 1234 — 中文 <x>\n a  b\0".encode()

BYTES = {f"<0x{i:02X}>": i for i in range(256)}
PIECES = {piece: i for i, piece in enumerate(["[UNK]", "a", "b", "l", "o", "##l", "##o", "lo", "llo", "Ġ", "Ġa", "▁"])}
MODELS = [
    {"type": "BPE", "vocab": PIECES, "merges": [["l", "o"], ["l", "lo"], ["Ġ", "a"]], "unk_token": "[UNK]",
     "fuse_unk": True, "byte_fallback": False, "ignore_merges": True},
    {"type": "BPE", "vocab": {**BYTES, "a": 256, "b": 257, "ab": 258}, "merges": ["a b"], "byte_fallback": True},
    {"type": "BPE", "vocab": {"a": 0, "b</w>": 1, "ab</w>": 2}, "merges": [["a", "b</w>"]],
     "end_of_word_suffix": "</w>"},
    {"type": "WordPiece", "vocab": PIECES, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
     "max_input_chars_per_word": 100},
    {"type": "WordLevel", "vocab": PIECES, "unk_token": "[UNK]"},
    {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.0], ["▁", -2.0], ["▁a", -1.5]], "unk_id": 0,
     "byte_fallback": False},
]
NORMALIZERS = [
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
                                         {"type": "Strip", "strip_left": True, "strip_right": True}]},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
     "lowercase": True},
    {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"Regex": "l+"}, "content": "L"},
                                         {"type": "Prepend", "prepend": "▁"}, {"type": "NFKC"}, {"type": "Nmt"}]},
    {"type": "ByteLevel"}, {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="},
]
SPLITTERS = [
    {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}]},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    {"type": "BertPreTokenizer"}, {"type": "Whitespace"},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True},
                                           {"type": "Punctuation", "behavior": "MergedWithPrevious"},
                                           {"type": "CharDelimiterSplit", "delimiter": "e"}]},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
    {"type": "FixedLength", "length": 3},
]
FRAMES = [
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}},
                                              {"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
     "special_tokens": {"a": {"id": "a", "ids": [1], "tokens": ["a"]}}},
    {"type": "RobertaProcessing", "sep": ["b", 2], "cls": ["a", 1], "trim_offsets": True, "add_prefix_space": True},
    {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                                         "use_regex": True}]},
    {"type": "BertProcessing", "sep": ["b", 2], "cls": ["a", 1]},
]
DECODERS = [
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                      {"type": "ByteFallback"}, {"type": "Fuse"},
                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    {"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "##", "cleanup": True},
    {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
]
ADDED = [{"id": 300, "content": "<x>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False,
          "special": True},
         {"id": 301, "content": "It", "single_word": True, "lstrip": False, "rstrip": False, "normalized": True,
          "special": False}]


def tokenizer(number):
    """Tokenizer `number`: every component occurs in one of them."""
    return json.dumps({"version": "1.0", "added_tokens": ADDED, "normalizer": NORMALIZERS[number % len(NORMALIZERS)],
                       "pre_tokenizer": SPLITTERS[number % len(SPLITTERS)],
                       "post_processor": FRAMES[number % len(FRAMES)], "decoder": DECODERS[number % len(DECODERS)],
                       "model": MODELS[number % len(MODELS)]}, ensure_ascii=False).encode()


def large_bpe(text):
    pieces = {"a" * i: i - 1 for i in range(1, 300)}
    merges = [["a" * i, "a"] for i in range(1, 299)]
    return json.dumps({"model": {"type": "BPE", "vocab": pieces, "merges": merges}}).encode() + b"\0" + text


TOKENIZERS = [tokenizer(i) + b"\0" + TEXT for i in range(8)]
EXPRESSIONS = [LLAMA3.encode() + b"\0" + TEXT, rb"(a+)+$" + b"\0" + b"a" * 40 + b"b",
               rb"[[:punct:]]|\w+(?=\d)|\S" + b"\0" + TEXT, rb" ?\p{L}+|(?<=x)\s" + b"\0" + TEXT]
LARGE_TOKENIZERS = [large_bpe(b"a" * 500_000), large_bpe(b"ab " * 200_000),
                    json.dumps({"model": {"type": "WordLevel", "unk_token": "0",
                                          "vocab": {str(i): i for i in range(100_000)}}}).encode() + b"\0" + TEXT,
                    b"[" * 5_000_000]
LARGE_EXPRESSIONS = [LLAMA3.encode() + b"\0" + b"It's a word, and 1234 more.\n" * 40_000,
                     LLAMA3.encode() + b"\0" + b" " * 1_000_000]
WORDS = ["model", "normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "type", "vocab", "merges",
         "BPE", "Unigram", "WordPiece", "WordLevel", "Sequence", "ByteLevel", "Split", "Regex", "String", "Metaspace",
         "TemplateProcessing", "null", "true", "-1", "4194304", "2147483648", "1e308"]
EXPRESSION_WORDS = ["\\\\p{L}", "\\\\s", "\\\\S", "\\\\w", "(?i:", "(?=", "(?!", "(?<=", "{1,3}", "[^", "*+", "+?",
                    "\\\\x{", "[:alpha:]", "(?R)", "\\\\1", "(*"]
