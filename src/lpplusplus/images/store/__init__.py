"""Embeddings on disk: a folder of safetensors shards and a JSON index.

    photos.features/
        index.json                  written last: settings, classes, and each shard's rows, size and checksums
        shard-000000.safetensors    embeddings (n, V, D) float32, SHA-256 of each image's bytes, paths, labels
        shard-000001.safetensors
        .lock                       empty; held by the process that writes
        index.before.json           only while the store is being changed: the index it had
        replaced/                   shards that no longer fit the list, see below

**Key.** An embedding is found by the SHA-256 of its image's bytes. A whole store has one origin: one encoder
fingerprint, preprocessing, version of the decoding rules and number of views. If any of these changes, everything is
computed again.

**Shards.** Shard k holds images 512 k to 512 k + 511 of the list, whatever happened before, so that the same list gives
the same folder, byte for byte. A file appears complete or not at all.

**Changes.** The process may be killed between any two of these steps:

1. The index is renamed to `index.before.json`, so that nobody reads a store that is being changed.
2. Shards that no longer fit the list are moved to `replaced/`, where their embeddings can still be used.
3. New shards are written, then the new index.
4. `replaced/` is cleared, unless the store held a different list of images: fewer than half of the images of the
   shorter list are in both. Then the old shards stay until all their images are in the store again.

**Damage.** Every shard carries a SHA-256 of its content, checked when the store is written to. A shard that fails is
computed again. The index has the size of each file, checked when a store is opened, and its CRC-32, checked when
embeddings are loaded. So neither truncation nor a flipped bit goes unnoticed. This is no protection against forgery.
"""

from ..errors import StoreError
from .feature_store import FeatureStore, is_store
from .shards import Shard
from .writer import ROWS_PER_SHARD, StoreWriter

__all__ = ["ROWS_PER_SHARD", "FeatureStore", "Shard", "StoreError", "StoreWriter", "is_store"]
