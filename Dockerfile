# Raise tag and digest together: the digest alone decides which image it is.
ARG PYTHON_IMAGE=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

# hadolint ignore=DL3006
FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src

# Dependencies before sources: a change of code reuses this layer.
# They include llama.cpp, with which the demo model answers in a container that has no configuration of its own, and what
# traces and buckets need. --build-arg REQUIREMENTS=runtime.txt leaves all three out.
ARG REQUIREMENTS
COPY requirements/ requirements/
RUN python -m venv --without-pip /opt/gateway \
    && pip --python /opt/gateway/bin/python install --require-hashes -r "requirements/${REQUIREMENTS:-image.txt}"

# What builds stays out of the image: Debian's compiler, and packages whose pins and hashes are those of the development
# lock.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN sed -n -e '/^cython==/,/# via/p' -e '/^setuptools==/,/# via/p' requirements/dev.txt > build.txt \
    && pip install --require-hashes -r build.txt

COPY pyproject.toml README.md LICENSE responses_gateway.py ./
COPY translation/ translation/
COPY dataplane/ dataplane/
COPY providers/ providers/
COPY gateway/ gateway/
RUN pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
    && pip --python /opt/gateway/bin/python install --no-deps wheels/*.whl

# hadolint ignore=DL3006
FROM ${PYTHON_IMAGE}
# llama.cpp is linked against it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 libstdc++6 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --user-group --no-create-home gateway \
    && install --directory --owner=10001 --group=10001 /var/lib/responses-gateway
COPY --from=build /opt/gateway /opt/gateway
COPY deploy/config.yaml /etc/responses-gateway/config.yaml
# `serve` listens on GATEWAY_PORT, whatever the configuration says, and the health check below asks there.
ENV GATEWAY_PORT=8080
ENV PATH=/opt/gateway/bin:$PATH STORE_URL=sqlite+aiosqlite:////var/lib/responses-gateway/state.db
VOLUME /var/lib/responses-gateway
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:%s/healthz' % os.environ['GATEWAY_PORT'], timeout=2)"]
CMD ["responses-gateway", "serve", "--host", "0.0.0.0", "--config", "/etc/responses-gateway/config.yaml"]
