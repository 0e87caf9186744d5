"""Seals bytes into text that only a holder of the key can unseal, and only for the owner it was sealed for.

Encryption is AES-256-GCM with a key derived by HKDF-SHA256. The owner is associated data.
"""

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gateway.errors import StoreUnavailable

SEAL_PREFIX: Final = "rgr"
"""The prefix of every sealed text. Then follow the version, a dot, the key's id, a dot, and nonce and ciphertext in
base64url."""

_VERSION: Final = f"{SEAL_PREFIX}1"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4


class UnsealFailed(Exception):
    """The text was not sealed here for this owner, was changed, or its key is no longer known."""


class Sealer:
    """Seals with the first key, and unseals with any of them.

    `load_key` returns a last key, or None as long as it cannot be loaded. That key seals only if `keys` is empty.
    """

    def __init__(self, keys: Sequence[bytes], load_key: Callable[[], bytes | None] | None = None) -> None:
        self._load_key = load_key
        self._keys = [_Key(key) for key in keys]

    def seal(self, payload: bytes, owner: str) -> str | None:
        """Returns text that `unseal` accepts, different each time; None as long as there is no key."""
        keys = self._available_keys()
        return keys[0].seal(payload, owner) if keys else None

    def unseal(self, text: str, owner: str) -> bytes:
        """Returns the sealed bytes.

        Raises UnsealFailed; StoreUnavailable if the key may be the one that cannot be loaded yet.
        """
        version, _, sealed = text.partition(".")
        key_id, _, sealed = sealed.partition(".")
        if version != _VERSION:
            raise UnsealFailed
        for key in self._available_keys():
            if key.id == key_id:
                return key.unseal(sealed, owner)
        if self._load_key is not None:
            raise StoreUnavailable("the store is unavailable, and may have the key to this request's encrypted_content")
        raise UnsealFailed

    def _available_keys(self) -> Sequence["_Key"]:
        if self._load_key is not None and (secret := self._load_key()) is not None:
            self._keys.append(_Key(secret))
            self._load_key = None
        return self._keys


def generate_key() -> bytes:
    """Returns a new random secret."""
    return os.urandom(_KEY_BYTES)


def is_sealed(text: str) -> bool:
    """Whether a text has the prefix of sealed text. It may still fail to unseal."""
    return text.startswith(SEAL_PREFIX)


class _Key:
    def __init__(self, secret: bytes) -> None:
        derived = HKDF(SHA256(), _KEY_BYTES + _ID_BYTES, salt=None, info=_VERSION.encode()).derive(secret)
        self.id = derived[_KEY_BYTES:].hex()
        self._cipher = AESGCM(derived[:_KEY_BYTES])

    def seal(self, payload: bytes, owner: str) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, payload, self._associated_data(owner))
        return f"{_VERSION}.{self.id}.{base64.urlsafe_b64encode(sealed).decode()}"

    def unseal(self, text: str, owner: str) -> bytes:
        try:
            sealed = base64.b64decode(text, altchars=b"-_", validate=True)
            # Base64 decoding ignores trailing bits of the last character, so a changed text could decode to the same.
            if base64.urlsafe_b64encode(sealed).decode() != text:
                raise UnsealFailed
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._associated_data(owner))
        except (binascii.Error, ValueError, InvalidTag) as error:
            raise UnsealFailed from error

    def _associated_data(self, owner: str) -> bytes:
        return f"{_VERSION}.{self.id}.{owner}".encode()
