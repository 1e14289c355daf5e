"""What went wrong, in a form that a user can act on."""


import unicodedata


class TraceError(Exception):
    """The message says where, what was found, what was expected and what to do; it is printed after `error: `."""


def one_line(error, limit=300):
    """The message of any exception on one line of at most `limit` characters."""
    text = " ".join(str(error).split()) or "no message"
    text = text.rstrip(".")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text):
    """`text` with control, format and separating characters escaped, as a terminal may be shown the text of others."""
    return "".join(escaped(char) if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") else char for char in text)


def escaped(char):
    return char.encode("unicode_escape").decode()
