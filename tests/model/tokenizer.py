"""Writes a tokeniser whose tokens are the 256 bytes beside the model, for mlx-lm and transformers.

    python tests/model/tokenizer.py FOLDER

Needs tokenizers and transformers. Token 0, the NUL that ends a document of the corpus, is the end of text.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode


def save_tokenizer(folder: Path) -> None:
    names = bytes_to_unicode()  # each byte as the character that ByteLevel writes for it
    tokenizer = Tokenizer(models.BPE(vocab={name: byte for byte, name in names.items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=names[0], model_max_length=4096)
    wrapped.save_pretrained(folder)


if __name__ == "__main__":
    save_tokenizer(Path(sys.argv[1]))
