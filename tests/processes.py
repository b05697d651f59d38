"""Processes in a PyTorch process group, like learners."""

import gc
import os
import pickle
import traceback

import torch


def together(function, count, folder):
    """The results of the function, called with its rank in each of so many processes of a group.

    The processes are forks of this one. The folder serves one meeting.

    Raises:
        RuntimeError: When one of them fails, with the errors of all: the cause may be anyone's.
    """

    def act(rank):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=count
        )
        return function(rank)

    children = [_fork(act, rank, folder / f"result-{rank}") for rank in range(count)]
    endings = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    results, errors = [], []
    for rank, ending in enumerate(endings):
        path = folder / f"result-{rank}"
        if ending:
            error = path.read_text() if path.exists() else f"ended with {ending}"
            errors.append(f"process {rank}: {error}")
        else:
            results.append(pickle.loads(path.read_bytes()))
    if errors:
        raise RuntimeError("\n".join(errors))
    return results


def _fork(function, rank, path):
    """Forks this process. The child writes its result or its error, and exits with 0 or 1."""
    if child := os.fork():
        return child
    gc.freeze()  # inherited objects may belong to threads of the parent
    torch.set_num_threads(1)  # PyTorch renews its pool once after a fork; threads would race
    try:
        path.write_bytes(pickle.dumps(function(rank)))
        os._exit(0)
    except BaseException:
        path.write_text(traceback.format_exc())
    finally:
        os._exit(1)
