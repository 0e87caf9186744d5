"""A server with the API of S3 on a loopback socket, and what tests read of its buckets."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import httpx
import obstore
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

Json = dict[str, Any]

_REGION: Final = "eu-central-1"
_PREFIX: Final = "gateway/files"
_numbers: Final = count()


class Bucket:
    """One bucket of a server. `settings` is the section `files.s3` for it."""

    def __init__(self, url: str, name: str) -> None:
        self._url = f"{url}/{name}"
        self.settings: Json = {
            "bucket": name,
            "prefix": _PREFIX,
            "endpoint": url,
            "region": _REGION,
            "access_key": "test-access-key",
            "secret_key": "test-secret-of-the-key",
        }

    def list_names(self) -> list[str]:
        """Returns the names of all objects, without the prefix."""
        listed = httpx.get(f"{self._url}?list-type=2", trust_env=False, timeout=60).text
        keys = re.findall(r"<Key>([^<]*)</Key>", listed)
        assert all(key.startswith(f"{_PREFIX}/") for key in keys), keys
        return sorted(key.removeprefix(f"{_PREFIX}/") for key in keys)

    def list_unfinished(self) -> list[str]:
        """Returns the names of objects whose upload in parts has begun and not ended."""
        return re.findall(r"<Key>([^<]*)</Key>", httpx.get(f"{self._url}?uploads", trust_env=False, timeout=60).text)

    def remove_all(self) -> None:
        """Deletes all objects."""
        own = self.settings
        store = S3Store(
            own["bucket"],
            prefix=own["prefix"],
            endpoint=own["endpoint"],
            region=own["region"],
            access_key_id=own["access_key"],
            secret_access_key=own["secret_key"],
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
        obstore.delete(store, self.list_names())


class S3Server:
    """Makes buckets, each of its own name."""

    def __init__(self, url: str) -> None:
        self.url = url

    def make_bucket(self) -> Bucket:
        name = f"bucket-{next(_numbers)}"
        place = (
            f"<CreateBucketConfiguration><LocationConstraint>{_REGION}</LocationConstraint></CreateBucketConfiguration>"
        )
        httpx.put(f"{self.url}/{name}", content=place, trust_env=False, timeout=60).raise_for_status()
        return Bucket(self.url, name)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Serves S3 until the block ends."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()
