"""Embeddings in Parquet files, as clusters write them and every data tool reads them.

    features/
        part-000000.parquet     rows in the order of the list of images
        part-000001.parquet
        _index.json             written last: origin, classes, and the rows of each part

Columns: `embedding`, a list of V·D float32 numbers of fixed length; `label` (where there are labels) and `path`, texts;
`hash`, the SHA-256 of the image's bytes. The schema's metadata say under "lpplusplus" what made the embeddings, and
which part of which list this is, so a part can be checked on its own.

Parquet files of other programs are read if they have a column `embedding`; so is the layout of clip-retrieval
. Nothing is unpickled.
"""

from .reading import is_parquet, read_parquet
from .tables import write_parquet

__all__ = ["is_parquet", "read_parquet", "write_parquet"]
