# A profile's stack in an image: the same lock, the same restore and the same check as on a host.
#
#   docker build --build-arg CUDA_DIGEST=sha256:… --build-arg PROFILE=21k-toks --tag stack .
#   docker run --gpus all stack python -m trainer --profile 21k-toks
#
# CUDA_DIGEST is the digest of nvidia/cuda:12.8.1-base-ubuntu24.04 (or of another base whose python3 is one of the
# profile's versions): a tag may be moved, a digest may not. `docker buildx imagetools inspect` tells it.
# Wheels that no index has go into wheelhouse/ beside this file (`envdoctor fetch --wheelhouse wheelhouse`); pip's own
# configuration comes as a secret: `--secret id=pip,src=pip.conf`. Neither gets into the image.
ARG CUDA_DIGEST
FROM nvidia/cuda@${CUDA_DIGEST}

SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

# The compiler and Python's headers are for torch.compile. Their versions are the base image's day's.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 trainer \
    && install --directory --owner=trainer --group=trainer /opt/train

USER 10001:10001
WORKDIR /opt/train
COPY --chown=trainer:trainer pyproject.toml README.md LICENSE ./
COPY --chown=trainer:trainer envdoctor envdoctor
COPY --chown=trainer:trainer trainer trainer
COPY --chown=trainer:trainer profiles profiles
COPY --chown=trainer:trainer lockfiles lockfiles

# The tool lives in a venv of its own, beside the stack and not in it.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf,mode=0444 \
    python3 -m venv .tool \
    && .tool/bin/python -m pip install --no-cache-dir --disable-pip-version-check .

ARG PROFILE=21k-toks
ENV ENVDOCTOR_PROFILE=${PROFILE} \
    VIRTUAL_ENV=/opt/train/.venv \
    PATH=/opt/train/.venv/bin:/opt/train/.tool/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# uv's cache and the wheels are mounted for this step; the files of the venv are copies, not links into the cache.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf,mode=0444 \
    --mount=type=cache,target=/tmp/uv-cache,uid=10001 \
    --mount=type=bind,target=/context \
    export UV_CACHE_DIR=/tmp/uv-cache UV_LINK_MODE=copy \
    && if [ -d /context/wheelhouse ]; then set -- --wheelhouse /context/wheelhouse; fi \
    && envdoctor restore --yes "$@" \
    && rm -rf .envdoctor

# An image is built where no GPU is; everything else has to be in order now.
RUN envdoctor check --ignore "ED606=an image is built without the GPUs it will run on"

HEALTHCHECK --interval=5m --timeout=30s --start-period=30s CMD ["envdoctor", "check", "--quiet"]

ENTRYPOINT ["envdoctor", "run", "--"]
CMD ["python", "-m", "trainer", "--help"]
