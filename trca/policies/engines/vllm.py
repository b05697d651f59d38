"""The vLLM engine: every prompt starts as it comes, and shares its passes with those under way.

Needs ``pip install 'trca[vllm]'``. On a CPU it lives in this process and one thread steps it; on
GPUs it is vLLM's ``AsyncLLM``. ``engine_config`` takes the arguments of vLLM's ``EngineArgs``, such
as ``tensor_parallel_size`` and ``gpu_memory_utilization``.

==================  ================================================================================
Log-probabilities   Those of the distribution that was sampled from, after temperature. There is no
                    ``top_p`` and no ``top_k``: they bias the importance ratio.
Vocabulary          Ids that the tokenizer does not have are never sampled.
Stop strings        vLLM sees some a token late; the rest is cut off by the bytes of the tokens.
Prefix cache        On. It is emptied by a push, and prompts of two versions never share an entry.
Weights             Pushed through a file in shared memory, in the engine's precision. Names and
                    shapes are checked first: vLLM passes missing ones in silence, and does not
                    survive wrong ones. An adapter is pushed as a file of peft's.
Push under way      Running requests are computed again under the new weights, and keep the tokens
                    they have. A completion carries the version at which it was submitted.
==================  ================================================================================
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM

from trca.policies.engines import missing_engine
from trca.policies.engines.engine import Completion, EngineSpec, Request, SamplingParams
from trca.policies.models import load_tokenizer, resolve_dtype
from trca.policies.spans import token_bytes
from trca.policies.weights import check_weights, named_tensors, to_tensor

_CPU_ENVIRONMENT: Final = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
_CPU_SETTINGS: Final = {
    "enforce_eager": True,
    "distributed_executor_backend": "uni",
    "enable_chunked_prefill": False,
    "block_size": 32,
    "kv_cache_memory_bytes": 256 << 20,
    "max_num_seqs": 128,
}
_LORA_RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
_WORKER: Final = "trca.policies.engines.vllm_worker"
_SHARED_MEMORY: Final = Path("/dev/shm")


def open_engine(spec: EngineSpec) -> VLLMEngine:
    """Opens the model of a spec; its options are arguments of vLLM's ``EngineArgs``.

    ``in_process`` says whether the engine lives in this process, by default on CPU. ``sleep`` says
    whether it gives up its GPU's memory between phases of sampling, so that a learner on the same
    GPU has it: weights wait in the memory of the CPU, keys and values are dropped.

    Raises:
        ValueError: When vLLM is not installed.
    """
    if lack := missing_engine("vllm"):
        raise ValueError(lack)
    return VLLMEngine(spec)


class VLLMEngine:
    """Generates with vLLM; see the module.

    Attributes:
        version: Version of the weights, as given to `load_weights`.
    """

    def __init__(self, spec: EngineSpec) -> None:
        """Starts vLLM with the weights of the spec's folder."""
        options = dict(spec.options)
        cpu = spec.device == "cpu"
        in_process = options.pop("in_process", cpu)
        self._sleeps = options.pop("sleep", False)
        self._asleep = False
        if cpu:
            for name, value in _CPU_ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            options = {**_CPU_SETTINGS, **options}
        elif self._sleeps:
            options["enable_sleep_mode"] = True
        from trca.policies.engines import vllm_server

        self.version = 0
        self._tokenizer = load_tokenizer(spec.model)
        self._pieces = token_bytes(self._tokenizer)
        config = AutoConfig.from_pretrained(spec.model)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        self._expected = {} if spec.lora_rank else named_tensors(model)
        self._lora = (spec.lora_rank, spec.lora_alpha)
        self._adapter: Any = None
        self._folder = Path(tempfile.mkdtemp(prefix="trca-", dir=_shared_memory()))
        ends = getattr(model.generation_config, "eos_token_id", None)
        known = ends if isinstance(ends, list) else [ends]
        self._ends = sorted({i for i in [*known, self._tokenizer.eos_token_id] if i is not None})
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
        from trca.policies.engines.vllm_server import sampling_params

        self._wake()
        done: Future[Completion] = Future()
        version = self.version
        params = sampling_params(sampling, request.seed, self._ends)
        outcome = self._server.submit(
            request.prompt_ids.tolist(), params, str(version), self._adapter
        )

        def finish(future: Future[Any]) -> None:
            try:
                done.set_result(self._completion(future.result(), sampling, version))
            except Exception as error:
                done.set_exception(error)

        outcome.add_done_callback(finish)
        return done

    def flush(self) -> None:
        """Has nothing to do: what was submitted runs."""

    def sleep(self) -> None:
        """Gives its GPU's memory to others until the next prompt or push, where `sleep` is set."""
        if self._sleeps and not self._asleep:
            self._server.sleep()
            self._asleep = True

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Pushes new weights, or those of the adapter.

        Raises:
            ValueError: When names or shapes are not those of the model; nothing is changed then.
        """
        from safetensors.torch import save_file

        self._wake()
        tensors = {name: to_tensor(value).contiguous() for name, value in weights.items()}
        if self._expected:
            check_weights(self._expected, tensors)
            path = self._folder / "model.safetensors"
            save_file(tensors, path)
            self._server.load(str(path))
            path.unlink()
        else:
            self._adapter = self._server.adapter(version, self._adapter_folder(tensors, version))
        self.version = version

    def close(self) -> None:
        """Stops vLLM."""
        self._server.close()
        with suppress(OSError):
            for path in [*self._folder.rglob("*")][::-1]:
                path.rmdir() if path.is_dir() else path.unlink()
            self._folder.rmdir()

    def _wake(self) -> None:
        if self._asleep:
            self._server.wake()
            self._asleep = False

    def _adapter_folder(self, tensors: Mapping[str, torch.Tensor], version: int) -> str:
        """Writes an adapter as peft does; the files of two versions alternate."""
        from safetensors.torch import save_file

        folder = self._folder / f"adapter-{version % 2}"
        folder.mkdir(exist_ok=True)
        rank, alpha = self._lora
        layers = sorted({name.rsplit(".", 3)[1] for name in tensors})
        config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": layers}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        named = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
        save_file(named, folder / "adapter_model.safetensors")
        return str(folder)

    def _completion(self, output: Any, sampling: SamplingParams, version: int) -> Completion:
        said = output.outputs[0]
        ids = np.array(said.token_ids, dtype=np.int32)
        scores = said.logprobs.logprobs
        assert len(scores) == len(ids)
        size = self._stop(ids, sampling.stop)
        return Completion(
            ids=ids[:size],
            logprobs=np.array(scores[:size], dtype=np.float32),
            finish_reason="length" if said.finish_reason == "length" else "stop",
            version=version,
        )

    def _stop(self, ids: NDArray[np.int32], stops: tuple[str, ...]) -> int:
        """The number of tokens up to the one that completes a stop string."""
        wanted, text = [stop.encode() for stop in stops], b""
        longest = max(map(len, wanted), default=0)
        for place, token in enumerate(ids.tolist()):
            text = text[-longest:] + self._pieces[token]
            if any(stop in text for stop in wanted):
                return place + 1
        return len(ids)


def _shared_memory() -> Path | None:
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
