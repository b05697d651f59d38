# trca with what training needs, installed by the Makefile.
#   docker build -t trca .                           for CPUs; also for GPUs without vLLM
#   docker build -t trca --build-arg BASE=nvidia/cuda:12.8.1-devel-ubuntu24.04 .    CUDA's tools, for vLLM
#   docker run --rm -it --shm-size 4g trca train quickstart         GPUs: --gpus all
# TORCH_INDEX: index of PyTorch's CPU builds, which pytorch.org names; it saves gigabytes of CUDA libraries.
ARG BASE=python:3.11-slim
FROM ${BASE}
ARG TORCH_INDEX=""
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make $(command -v python3 >/dev/null || echo python3-venv) \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/trca
COPY . .
RUN if [ -n "$TORCH_INDEX" ]; then \
        python3 -m venv .venv \
        && .venv/bin/python -m pip install --no-cache-dir --constraint constraints/all.txt --index-url "$TORCH_INDEX" torch; \
    fi \
    && PIP_NO_CACHE_DIR=1 make .venv/.train
ENV PATH=/opt/trca/.venv/bin:$PATH
ENTRYPOINT ["trca"]
