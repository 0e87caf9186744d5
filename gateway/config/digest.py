"""A short digest of a configuration, by which two reports can be compared without their configurations."""

import hashlib

import orjson

from gateway.config.settings import Settings

_DIGITS = 12


def digest_config(settings: Settings) -> str:
    """Returns a digest of the settings that decide how models are served: providers, models and downloads.

    How the server listens, stores and authenticates is not part of it. Keys are not part of it either: the digest is
    made of settings in which secrets are masked, so that it reveals nothing about them.
    """
    content = settings.model_dump(mode="json", include={"providers", "models", "egress"})
    # The order of models is kept: the first pattern that matches a name serves it.
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:_DIGITS]
