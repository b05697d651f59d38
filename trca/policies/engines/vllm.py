"""The vLLM engine: every prompt starts at once and is batched with the prompts under way.

Needs the extra ``vllm``. On a CPU the engine runs in this process and one thread steps
it; on GPUs it is vLLM's ``AsyncLLM``. ``engine_config`` takes the arguments of vLLM's
``EngineArgs``, such as ``tensor_parallel_size`` and ``gpu_memory_utilization``.

==================  ================================================================================
Log-probabilities   Of the sampling distribution, after temperature. ``top_p`` and ``top_k`` are not
                    available: they bias the importance ratio.
Vocabulary          Ids outside the tokenizer are never sampled.
Stop strings        vLLM detects some of them a token late; the surplus is cut off by bytes. vLLM
                    also ends a request at a stop string within a native thought; a second request
                    continues the completion.
Prefix cache        On. A push empties it, and prompts of two versions never share an entry.
Weights             Pushed through a file in shared memory, in the engine's precision. Names and
                    shapes are checked before: vLLM ignores missing tensors and crashes on wrong
                    shapes. An adapter is pushed as a folder in peft's format. vLLM reads an evicted
                    adapter again, so the folder exists until its last request has ended.
Push under way      Running requests are computed again under the new weights and keep their tokens.
                    Requests with an adapter keep their adapter. A completion carries the version at
                    its submission.
==================  ================================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, Self

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from trca.common.extras import missing_extra
from trca.policies.architectures import RECURRENT
from trca.policies.engines.engine import (
    Completion,
    Engine,
    EngineLoad,
    EngineMemory,
    EngineSpec,
    Request,
    SamplingParams,
)
from trca.policies.engines.stops import StopStrings, end_ids
from trca.policies.models import load_tokenizer, resolve_dtype
from trca.policies.spans import token_bytes
from trca.policies.weights import check_weights, named_tensors, to_tensor

_CPU_ENVIRONMENT: Final = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
_GPU_ENVIRONMENT: Final = {
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "TRITON_F32_DEFAULT": "ieee",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
"""A forked process cannot use CUDA if this process did. Attention in float32 rounds to TF32 by
default, and sampler and trainer disagree."""
_CACHE_BYTES: Final = "kv_cache_memory_bytes"
_CPU_SETTINGS: Final[Mapping[str, Any]] = {
    "enforce_eager": True,
    "distributed_executor_backend": "uni",
    "enable_chunked_prefill": False,
    "block_size": 32,
    _CACHE_BYTES: 256 << 20,
    "max_num_seqs": 128,
}
_CPU_HEAD_WIDTH: Final = 32
_GPU_SHARE: Final = 0.92
"""vLLM's default of ``gpu_memory_utilization``."""
_LORA_RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
_WORKER: Final = "trca.policies.engines.vllm_worker"
_SHARED_MEMORY: Final = Path("/dev/shm")
_NO_IDS: Final = np.zeros(0, dtype=np.int32)
_NO_LOGPROBS: Final = np.zeros(0, dtype=np.float32)


class VLLMEngine(Engine):
    """Generates with vLLM; see the module docstring.

    Two options are not vLLM's. ``in_process`` runs the engine in this process, by default on a CPU.
    ``sleep`` lets the engine free the GPU's memory between phases of sampling, for a learner on the
    same GPU: weights move to the CPU's memory, keys and values are dropped.
    """

    extra = "vllm"
    takes_adapters = True
    frees_memory = True
    split_option = "tensor_parallel_size"

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Opens the model of a spec, if vLLM is installed and `check` accepts the spec."""
        if lack := cls.missing():
            raise ValueError(lack)
        cls.check(spec)
        return cls(spec)

    @classmethod
    def missing(cls) -> str:
        """How to install vLLM; empty if vLLM is installed."""
        return missing_extra("vllm", "engine 'vllm'", "vllm")

    @classmethod
    def check(cls, spec: EngineSpec) -> None:
        """Refuses what vLLM cannot run on the device; see `Engine.check`."""
        if spec.lora_rank > _LORA_RANKS[-1]:
            raise ValueError(
                f"lora_rank is {spec.lora_rank}, and vLLM takes at most {_LORA_RANKS[-1]}: set"
                " another rank or engine"
            )
        if spec.device != "cpu":
            if spec.lora_rank and resolve_dtype(spec.model, spec.dtype) == "float32":
                raise ValueError(
                    "vLLM on a GPU has no adapters in float32: set dtype to bfloat16, or engine to"
                    " transformers"
                )
            return
        if not cls.missing() and _built_for_gpus():
            raise ValueError(
                "vLLM is installed for GPUs and finds one: set num_gpus_per_env_runner to 1, or"
                " engine to transformers"
            )
        config = AutoConfig.from_pretrained(spec.model).get_text_config()
        if RECURRENT in (getattr(config, "layer_types", None) or ()):
            raise ValueError(
                f"model {spec.model!r} has {RECURRENT} layers, with which vLLM 0.32 does not start"
                " on a CPU: set engine to transformers"
            )
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        if width < _CPU_HEAD_WIDTH:
            raise ValueError(
                f"model {spec.model!r} has attention heads of width {width}: vLLM on a CPU needs"
                f" {_CPU_HEAD_WIDTH} or more; set engine to transformers"
            )

    @classmethod
    def memory(cls, load: EngineLoad) -> EngineMemory:
        """See `Engine.memory`. The KV cache has its bytes, or on a GPU the rest of a share."""
        devices = int(load.options.get(cls.split_option, 1))
        weights = load.policies * (load.weights + load.adapter) / devices
        if load.gpu is None or _CACHE_BYTES in load.options:
            cache = load.policies * float({**_CPU_SETTINGS, **load.options}[_CACHE_BYTES])
        else:
            share = float(load.options.get("gpu_memory_utilization", _GPU_SHARE))
            cache = max(load.policies * share * load.gpu - weights, 0.0)
        return EngineMemory(weights, cache, load.rollouts, devices)

    def __init__(self, spec: EngineSpec) -> None:
        """Starts vLLM with the weights of the spec's folder."""
        options = dict(spec.options)
        cpu = spec.device == "cpu"
        in_process = options.pop("in_process", cpu)
        self._sleeps = options.pop("sleep", False)
        self._asleep = False
        for name, value in (_CPU_ENVIRONMENT if cpu else _GPU_ENVIRONMENT).items():
            os.environ.setdefault(name, value)
        if cpu:
            options = {**_CPU_SETTINGS, **options}
        else:
            options["enable_sleep_mode"] = self._sleeps
            if int(options.get(self.split_option, 1)) > 1:  # in a trial of Tune, vLLM takes Ray
                options.setdefault("distributed_executor_backend", "mp")
        from trca.policies.engines import vllm_server

        self.version = 0
        self._tokenizer = load_tokenizer(spec.model)
        self._pieces = token_bytes(self._tokenizer)
        config = AutoConfig.from_pretrained(spec.model)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        with suppress(OSError):  # without the file, the end tokens of the config count
            model.generation_config = GenerationConfig.from_pretrained(spec.model)
        self._expected = {} if spec.lora_rank else named_tensors(model)
        self._lora = (spec.lora_rank, spec.lora_alpha)
        self._adapter: _Adapter | None = None
        self._pushes = count(1)
        memory = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._scratch = tempfile.TemporaryDirectory(
            prefix="trca-", dir=memory, ignore_cleanup_errors=True
        )
        self._folder = Path(self._scratch.name)
        self._ends = sorted(end_ids(model, self._tokenizer))
        if spec.lora_rank:
            rank = next(r for r in _LORA_RANKS if r >= spec.lora_rank)
            options |= {"enable_lora": True, "max_lora_rank": rank}
        arguments = {
            "model": spec.model,
            "dtype": resolve_dtype(spec.model, spec.dtype),
            "max_model_len": spec.max_tokens,
            "logprobs_mode": "processed_logprobs",
            "disable_log_stats": True,
            "worker_extension_cls": f"{_WORKER}.WorkerExtension",
            "logits_processors": [f"{_WORKER}:KnownIds"],
            "additional_config": {"known_ids": len(self._tokenizer)},
            **options,
        }
        server = vllm_server.InProcess if in_process else vllm_server.Separate
        self._server = server(arguments)

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion."""
        self.refuse_if_closed()
        self._wake()
        done: Future[Completion] = Future()
        sampled = Completion(_NO_IDS, _NO_LOGPROBS, "length", self.version)
        self._continue(done, request, sampling, sampled, self._adapter)
        return done

    def _continue(
        self,
        done: Future[Completion],
        request: Request,
        sampling: SamplingParams,
        before: Completion,
        adapter: _Adapter | None,
    ) -> None:
        """Samples the rest of a completion, and puts the completion into ``done``.

        vLLM ends a request at each stop string. A stop string within a native thought does not
        count: a second request continues behind the string, and reads its prompt from the prefix
        cache.
        """
        from trca.policies.engines.vllm_server import sampling_params

        size = len(before.ids)
        rest = replace(sampling, max_new_tokens=sampling.max_new_tokens - size)
        outcome = self._server.submit(
            [*request.prompt_ids.tolist(), *before.ids.tolist()],
            sampling_params(rest, request.seed + size, self._ends),
            str(self.version),
            adapter and adapter.request,
        )

        def finish(future: Future[Any]) -> None:
            try:
                sampled, ended = self._completion(future.result(), sampling, before)
                if ended:
                    done.set_result(sampled)
                else:
                    self._continue(done, request, sampling, sampled, adapter)
            except Exception as error:
                done.set_exception(error)

        outcome.add_done_callback(finish)

    def sleep(self) -> None:
        """Frees the GPU's memory until the next prompt or push if the option `sleep` is set."""
        if self._sleeps and not self._asleep:
            self._server.sleep()
            self._asleep = True

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Pushes new weights of the model or of the adapter; refused weights change nothing."""
        from safetensors.torch import save_file

        self.refuse_if_closed()
        self._wake()
        tensors = {name: to_tensor(value).contiguous() for name, value in weights.items()}
        if self._expected:
            check_weights(self._expected, tensors)
            path = self._folder / "model.safetensors"
            save_file(tensors, path)
            self._server.load(str(path))
            path.unlink()
        else:
            push = next(self._pushes)
            folder = self._folder / f"adapter-{push}"  # in peft's format
            folder.mkdir()
            rank, alpha = self._lora
            layers = sorted({name.rsplit(".", 3)[1] for name in tensors})
            config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": layers}
            (folder / "adapter_config.json").write_text(json.dumps(config))
            named = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
            save_file(named, folder / "adapter_model.safetensors")
            self._adapter = _Adapter(self._server.adapter(push, str(folder)), str(folder))
        self.version = version

    def close(self) -> None:
        """Stops vLLM."""
        if not self.closed:
            super().close()
            self._server.close()
            self._scratch.cleanup()

    def _wake(self) -> None:
        if self._asleep:
            self._server.wake()
            self._asleep = False

    def _completion(
        self, output: Any, sampling: SamplingParams, before: Completion
    ) -> tuple[Completion, bool]:
        """A completion with the tokens of a request, and whether the completion has ended."""
        sampled = output.outputs[0]
        if sampled.finish_reason not in ("stop", "length"):  # abort, error
            raise RuntimeError(f"vLLM ended a request early: {sampled.finish_reason}")
        ids = np.concatenate([before.ids, np.array(sampled.token_ids, dtype=np.int32)])
        scores = np.array(sampled.logprobs.logprobs, dtype=np.float32)
        logprobs = np.concatenate([before.logprobs, scores])
        assert len(logprobs) == len(ids)
        stops = StopStrings(sampling)
        place = next((k for k, i in enumerate(ids) if stops.ended_by(self._pieces[i])), None)
        size = len(ids) if place is None else place + 1
        quoted = sampling.thought != "none" and place is None and ids[-1] not in self._ends
        # The last token within the limit can also complete a quoted stop string.
        limit = sampled.finish_reason == "length" or (quoted and size == sampling.max_new_tokens)
        reason: Literal["stop", "length"] = "length" if limit else "stop"
        joined = replace(before, ids=ids[:size], logprobs=logprobs[:size], finish_reason=reason)
        return joined, limit or not quoted


class _Adapter:
    """An adapter in vLLM. Its folder exists as long as this object."""

    def __init__(self, request: Any, folder: str) -> None:
        self.request = request
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


def _built_for_gpus() -> bool:
    """Whether this vLLM runs on a GPU of this machine, whatever the device of the spec."""
    if not torch.cuda.is_available():
        return False
    from vllm.platforms import current_platform

    return bool(current_platform.is_cuda_alike())
