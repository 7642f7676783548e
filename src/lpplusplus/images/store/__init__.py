"""Embeddings on disk: a folder of safetensors shards and a JSON index.

    photos.features/
        index.json                  written last: settings, classes, and each shard's rows, size and checksums
        shard-000000.safetensors    embeddings (n, V, D) float32, SHA-256 of each image's bytes, paths, labels
        shard-000001.safetensors
        next/                       only while the store is being written: new shards
        .lock                       empty; held by the process that writes

**Key.** An embedding is found by the SHA-256 of its image's bytes. A whole store has one origin: one encoder
fingerprint, preprocessing, version of the decoding rules and number of views. A store of another origin, or of other
images (fewer than half of the shorter list are in both), is refused and left as it is.

**Shards.** Shard k holds images 512 k to 512 k + 511 of the list, whatever happened before, so that the same list gives
the same folder, byte for byte. A file appears complete or not at all.

**Changes.** New shards are written to `next/`; until all are there, the store is what it was, and readers can use it.
Then the index is removed, the shards are moved into place, shards beyond the list are removed, and the new index is
written. The process may be killed between any two of these steps: the next run goes on from there. Version 0.1 moved
shards that it replaced to a folder `replaced`; what is in it is used and not changed.

**Damage.** Every shard carries a SHA-256 of its content, checked when the store is written to. A shard that fails is
computed again. The index has the size of each file, checked when a store is opened, and its CRC-32, checked when
embeddings are loaded. So neither truncation nor a flipped bit goes unnoticed. This is no protection against forgery.
"""

from ..errors import StoreError
from .feature_store import FeatureStore, is_store
from .shards import Shard
from .writer import ROWS_PER_SHARD, StoreWriter

__all__ = ["ROWS_PER_SHARD", "FeatureStore", "Shard", "StoreError", "StoreWriter", "is_store"]
