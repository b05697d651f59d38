"""Processes in a PyTorch process group, like learners."""

import faulthandler
import gc
import math
import os
import pickle
import signal
import time
import traceback
from functools import partial

import torch

STUCK_S = 200
"""Seconds after which a process is stuck."""


def together(function, count, folder):
    """The results of the function, called with its rank in each of so many processes of a group.

    The processes are forks of this one. A fork may inherit a lock that a thread of this process
    holds, and wait for the lock forever: then all processes begin again, at most twice. The folder
    serves one call.

    Raises:
        RuntimeError: When one of them fails, with the errors of all: the cause may be anyone's.
    """

    def act(meeting, rank):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=count
        )
        return function(rank)

    for attempt in range(3):
        meet = partial(act, folder / f"meeting-{attempt}")
        children = [_fork(meet, rank, folder / f"result-{rank}") for rank in range(count)]
        deadline = time.monotonic() + STUCK_S
        endings = [_ending(child, deadline) for child in children]
        if -signal.SIGABRT not in endings:
            break
    results, errors = [], []
    for rank, ending in enumerate(endings):
        path = folder / f"result-{rank}"
        if ending:
            errors.append(f"process {rank} ended with {ending}: {path.read_text()}")
        else:
            results.append(pickle.loads(path.read_bytes()))
    if errors:
        raise RuntimeError("\n".join(errors))
    return results


def _ending(child, deadline):
    """The exit code of a process. A stuck process is aborted, which writes its stacks."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)
            deadline = math.inf
        time.sleep(0.02)


def _fork(function, rank, path):
    """Forks this process. The child writes its result or its error, and exits with 0 or 1."""
    if child := os.fork():
        return child
    faulthandler.disable()  # Ray may have taken its signals
    faulthandler.enable(path.open("w"))
    gc.freeze()  # inherited objects may belong to threads of the parent
    torch.set_num_threads(1)  # PyTorch renews its pool once after a fork; threads would race
    try:
        path.write_bytes(pickle.dumps(function(rank)))
        os._exit(0)
    except BaseException:
        path.write_text(traceback.format_exc())
    finally:
        os._exit(1)
