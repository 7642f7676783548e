"""LP++: few-shot classification on image–text embeddings with a linear probe that knows the class names.

>>> import lpplusplus
>>> probe = lpplusplus.LPPlusPlus()
"""

__version__ = "1.0.0rc1"


def __getattr__(name: str) -> object:
    """The names of `__init__.pyi`, loaded on first use: a program's --help should not wait a second for scikit-learn.

    lazy_loader itself is imported here and not above, so that `lpp` is ready for Ctrl-C before it imports anything.
    """
    import lazy_loader

    attached = lazy_loader.attach_stub(__name__, __file__)
    globals().update(zip(("__getattr__", "__dir__", "__all__"), attached, strict=True))
    return globals()[name] if name in globals() else attached[0](name)


def __dir__() -> list[str]:
    return [*__getattr__("__all__")]
