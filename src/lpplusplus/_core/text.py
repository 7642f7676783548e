"""A user's text, as it may be shown."""


def plain(value: object) -> str:
    r"""On one line. Control characters, which could drive a terminal or reorder a line, are as Python writes them.

    >>> plain("a\nb\u202ec")
    'a\\nb\\u202ec'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))
