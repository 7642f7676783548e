"""Embeddings on disk: a folder of safetensors shards and a JSON index.

    photos.features/
        index.json                  written last: settings, classes, and each shard's rows, size and checksums
        shard-000000.safetensors    embeddings (n, V, D) float32, SHA-256 of each file's bytes, paths, labels
        shard-000001.safetensors
        .lock                       empty; held by the process that writes
        index.before.json           only while another list takes this one's place: what the store held
        replaced/                   shards that had to make room, see below

**Key.** An embedding belongs to the SHA-256 of a picture's bytes, and a whole store to one encoder fingerprint,
preprocessing, rules of decoding and number of views. Change any, and it is computed anew.

**Shards.** Shard k holds pictures 512 k to 512 k + 511 of the list, whatever happened before, so that one list makes
one folder, byte for byte. Files appear complete or not at all. A shard that no longer fits the list is moved to
`replaced/` and serves as a source of embeddings until the new store is complete; the index is renamed first, and
written again last. A process may be killed between any two of these steps. Then what was set aside is removed, unless
the store held another list, with less than half of the pictures of either in common: that stays, until its pictures are
all in the store again.

**Damage.** Every shard carries a SHA-256 of its content, checked whenever a store is written to; a shard that fails is
computed anew. The index adds each file's size, checked when a store is opened, and its CRC-32, checked when embeddings
are loaded. So neither truncation nor a flipped bit goes unnoticed; who wants to forge a store can.
"""

from .errors import StoreError
from .reading import Features, FeatureStore, is_store
from .settings import Settings
from .shards import Shard
from .writing import ROWS_PER_SHARD, StoreWriter

__all__ = ["ROWS_PER_SHARD", "FeatureStore", "Features", "Settings", "Shard", "StoreError", "StoreWriter", "is_store"]
