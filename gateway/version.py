"""The version of the installed package."""

from importlib import metadata


def read_installed_version() -> str:
    """Returns the version, or a phrase for a checkout without one."""
    try:
        return metadata.version("responses-gateway")
    except metadata.PackageNotFoundError:
        return "(run from source, not installed)"
