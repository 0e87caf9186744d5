"""Seals bytes into text that only holders of the key can open, and only for the owner it was sealed for."""

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

MARK: Final = "rgr"
"""What text sealed here begins with. The version follows, then a dot, the key's id, a dot, and what is sealed."""

_VERSION: Final = f"{MARK}1"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4


class Unreadable(Exception):
    """Text that was not sealed here for this owner, was changed since, or whose key is not known any more."""


class Sealer:
    """The first key seals, all open. `late`: one more, for when there is no other or to open what it sealed; None as
    long as it cannot be had."""

    def __init__(self, keys: Sequence[bytes], late: Callable[[], bytes | None] | None = None) -> None:
        self._late = late
        self._keys = [_Key(key) for key in keys]

    def seal(self, held: bytes, owner: str) -> str | None:
        """Text that `unseal` takes, other text each time; None as long as there is no key."""
        keys = self._known()
        return keys[0].seal(held, owner) if keys else None

    def unseal(self, text: str, owner: str) -> bytes:
        """What was sealed. Raises Unreadable, and StoreUnavailable where the key may be one that cannot be had yet."""
        version, _, sealed = text.partition(".")
        key_id, _, sealed = sealed.partition(".")
        if version != _VERSION:
            raise Unreadable
        for key in self._known():
            if key.id == key_id:
                return key.unseal(sealed, owner)
        if self._late is not None:
            raise StoreUnavailable("the store has the key to this request's `encrypted_content` and cannot be reached")
        raise Unreadable

    def _known(self) -> Sequence["_Key"]:
        if self._late is not None and (found := self._late()) is not None:
            self._keys.append(_Key(found))
            self._late = None
        return self._keys


def new_key() -> bytes:
    """A secret that nobody else has."""
    return os.urandom(_KEY_BYTES)


def is_sealed(text: str) -> bool:
    """Whether text looks as if it was sealed here."""
    return text.startswith(MARK)


class _Key:
    def __init__(self, secret: bytes) -> None:
        derived = HKDF(SHA256(), _KEY_BYTES + _ID_BYTES, salt=None, info=_VERSION.encode()).derive(secret)
        self.id = derived[_KEY_BYTES:].hex()
        self._cipher = AESGCM(derived[:_KEY_BYTES])

    def seal(self, held: bytes, owner: str) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, held, self._bound_to(owner))
        return f"{_VERSION}.{self.id}.{base64.urlsafe_b64encode(sealed).decode()}"

    def unseal(self, text: str, owner: str) -> bytes:
        try:
            sealed = base64.b64decode(text, altchars=b"-_", validate=True)
            # The last letters may hold bits that decoding ignores.
            if base64.urlsafe_b64encode(sealed).decode() != text:
                raise Unreadable
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bound_to(owner))
        except (binascii.Error, ValueError, InvalidTag) as error:
            raise Unreadable from error

    def _bound_to(self, owner: str) -> bytes:
        return f"{_VERSION}.{self.id}.{owner}".encode()
