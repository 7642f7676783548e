"""LP++: few-shot classification on image–text embeddings with a linear probe that knows the class names.

>>> import lpplusplus
>>> probe = lpplusplus.LPPlusPlus()
"""

import lazy_loader

__version__ = "0.1.0"
# Names load on first use: scikit-learn takes a second to import, and a program's --help should not wait for it.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
