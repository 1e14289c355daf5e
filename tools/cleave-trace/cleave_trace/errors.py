"""What went wrong, in a form that a user can act on."""


class TraceError(Exception):
    """The message says where, what was found, what was expected and what to do; it is printed after `error: `."""


def one_line(error, limit=300):
    """The message of any exception on one line of at most `limit` characters."""
    text = " ".join(str(error).split()) or "no message"
    text = text.rstrip(".")
    return text if len(text) <= limit else text[: limit - 1] + "…"
