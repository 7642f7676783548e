"""The fair benchmark: data sets × methods × shots × tasks × encoders under one protocol, and reports on it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
