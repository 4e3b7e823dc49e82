"""Formats: bytes to records and back. The MDS family: manifests, shards, batches out of shards, a writer.

>>> from tombola.formats import MdsShard, encode_mds
>>> MdsShard(encode_mds([{"text": "hello"}], {"text": "str"})).read(0)
{'text': 'hello'}
"""

from tombola.formats._codecs import decompress, unpacked
from tombola.formats._columns import Columns
from tombola.formats._encodings import Encoding, encoding, encoding_names
from tombola.formats._gather import gather, gather_slow
from tombola.formats._hashes import check_hash, hash_names, hash_of
from tombola.formats._manifest import FileInfo, Manifest, ShardInfo
from tombola.formats._mds import MdsShard
from tombola.formats._open import check_file, make_shard, open_manifest, open_shard, unpack_file
from tombola.formats._parse import parse_manifest
from tombola.formats._ragged import Ragged
from tombola.formats._schema import Schema
from tombola.formats._shard import Shard
from tombola.formats._text import TextShard
from tombola.formats._writer import Writer, encode_mds

__all__ = [
    "Columns",
    "Encoding",
    "FileInfo",
    "Manifest",
    "MdsShard",
    "Ragged",
    "Schema",
    "Shard",
    "ShardInfo",
    "TextShard",
    "Writer",
    "check_file",
    "check_hash",
    "decompress",
    "encode_mds",
    "encoding",
    "encoding_names",
    "gather",
    "gather_slow",
    "hash_names",
    "hash_of",
    "make_shard",
    "open_manifest",
    "open_shard",
    "parse_manifest",
    "unpack_file",
    "unpacked",
]
