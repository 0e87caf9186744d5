"""Starts an nginx that only forwards. The gateway is compared with it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.servers.processes import Server, find_free_port, start_server_on_port


@contextmanager
def start_nginx(upstream: int, core: int | None, home: Path) -> Iterator[Server | None]:
    """Starts an nginx that forwards everything to `upstream` unbuffered. Yields None if nginx is not installed."""
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        yield None
        return
    port = find_free_port()
    config = home / "nginx.conf"
    config.write_text(_NGINX.format(home=home, port=port, upstream=upstream))
    command = [binary, "-p", str(home), "-c", str(config), "-e", str(home / "nginx-error.log")]
    with start_server_on_port("nginx", command, port, core, home / "nginx.log") as server:
        yield server


_NGINX = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 8m;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  keepalive_requests 1000000;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 300s;
    }}
  }}
}}
"""
