ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src

# Dependencies before sources: a change of code reuses this layer.
# --build-arg REQUIREMENTS=llamacpp.txt brings llama.cpp along, for providers of that type.
ARG REQUIREMENTS
COPY requirements/ requirements/
RUN python -m venv --without-pip /opt/gateway \
    && pip --python /opt/gateway/bin/python install --require-hashes -r "requirements/${REQUIREMENTS:-runtime.txt}"

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

FROM python:${PYTHON_VERSION}-slim
RUN useradd --system --uid 10001 --user-group --no-create-home gateway \
    && install --directory --owner=10001 --group=10001 /var/lib/responses-gateway
COPY --from=build /opt/gateway /opt/gateway
COPY deploy/config.yaml /etc/responses-gateway/config.yaml
ENV PATH=/opt/gateway/bin:$PATH STORE_URL=sqlite+aiosqlite:////var/lib/responses-gateway/state.db
VOLUME /var/lib/responses-gateway
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
CMD ["responses-gateway", "serve", "--host", "0.0.0.0", "--config", "/etc/responses-gateway/config.yaml"]
