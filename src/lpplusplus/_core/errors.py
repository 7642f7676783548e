"""A user's text, as it may be shown."""

LONGEST_MESSAGE = 1200
"""Characters of an error about a file: a few lines, whatever the file holds."""


def plain(value: object) -> str:
    r"""The text in one line. Control characters, which could change a terminal or reorder a line, are escaped.

    >>> plain("a\nb\u202ec")
    'a\\nb\\u202ec'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))


class BriefError(Exception):
    """An error whose message has a few lines at most, since it may repeat what somebody else wrote.

    >>> len(str(BriefError("a.lpp is damaged: " + "x" * 10**6)))
    1200
    """

    def __init__(self, message: object = "") -> None:
        said = str(message)
        super().__init__(said if len(said) <= LONGEST_MESSAGE else said[: LONGEST_MESSAGE - 2] + " …")
