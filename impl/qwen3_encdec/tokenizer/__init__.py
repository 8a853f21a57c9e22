"""The independent tokenizer: byte-level BPE in plain Python, to be read, and ported, stage by stage.

errors            the one error
files             a Hugging Face directory as plain data
added_tokens      1. the text is cut at its added tokens
normalize         2. what stands between them is normalised, by `unicode_tables`
pretokenize       3. and cut into pre-tokens, within which merges happen
byte_symbols      4. each a string of symbols, one for each byte
merge             5. which are merged by rank; `piece_encoder` is a faster road to the same
tokenizer         the composition of these; `stages` shows all of them, with offsets
decode, stream    back to text, at once or id by id
batch, chat       texts to a padded rectangle, messages to text
"""

from .added_tokens import AddedToken
from .batch import Batch
from .errors import TokenizerError
from .files import TokenizerFiles, read_directory
from .stages import PreToken, Segment, Stages
from .stream import StreamDecoder
from .tokenizer import ByteLevelTokenizer

__all__ = [
    "AddedToken",
    "Batch",
    "ByteLevelTokenizer",
    "PreToken",
    "Segment",
    "Stages",
    "StreamDecoder",
    "TokenizerError",
    "TokenizerFiles",
    "read_directory",
]
