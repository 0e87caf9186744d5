"""What the URL of a file says of it."""

from urllib.parse import unquote, urlsplit


def file_name_in(url: str) -> str:
    """The end of its path, which is what the file is called; nothing where it ends in none, or is no URL."""
    try:
        return unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError:  # `https://[`: the upstream says what is wrong with it
        return ""
