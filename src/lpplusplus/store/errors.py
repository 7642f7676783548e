"""What can be wrong with a feature store."""


class StoreError(ValueError):
    """A folder is not a feature store, is damaged, incomplete, in use or of a newer format; the message says which."""


class DamagedShardError(StoreError):
    """One shard is not as it was written; embedding again rebuilds it."""


class ForeignStoreError(StoreError):
    """Not ours, or of a newer format: never written over."""
