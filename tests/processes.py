"""Processes in a PyTorch process group, like learners."""

import faulthandler
import gc
import os
import pickle
import traceback
from functools import partial

import torch

STUCK_S = 240
"""Seconds after which a process is stuck."""


def together(function, count, folder):
    """The results of the function, called with its rank in each of so many processes of a group.

    The processes are forks of this one. A fork may inherit a lock that a thread of this process
    holds, and wait for the lock forever: then all processes begin again, once. The folder serves
    one meeting.

    Raises:
        RuntimeError: When one of them fails, with the errors of all: the cause may be anyone's.
    """

    def act(meeting, rank):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=count
        )
        return function(rank)

    for attempt in (1, 2):
        meet = partial(act, folder / f"meeting-{attempt}")
        children = [_fork(meet, rank, folder / f"result-{rank}") for rank in range(count)]
        endings = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if not _stuck(folder):
            break
    results, errors = [], []
    for rank, ending in enumerate(endings):
        path = folder / f"result-{rank}"
        if ending:
            error = path.read_text() if path.exists() else f"ended with {ending}"
            errors.append(f"process {rank}: {error}")
        else:
            results.append(pickle.loads(path.read_bytes()))
    if errors:
        raise RuntimeError("\n".join([*errors, _stuck(folder)]))
    return results


def _stuck(folder):
    """Where processes were stuck, as tracebacks; blank if none was."""
    return "".join(path.read_text() for path in sorted(folder.glob("*.stuck")))


def _fork(function, rank, path):
    """Forks this process. The child writes its result or its error, and exits with 0 or 1."""
    if child := os.fork():
        return child
    trace = path.with_suffix(".stuck").open("w")
    faulthandler.dump_traceback_later(STUCK_S, exit=True, file=trace)
    gc.freeze()  # inherited objects may belong to threads of the parent
    torch.set_num_threads(1)  # PyTorch renews its pool once after a fork; threads would race
    try:
        path.write_bytes(pickle.dumps(function(rank)))
        os._exit(0)
    except BaseException:
        path.write_text(traceback.format_exc())
    finally:
        os._exit(1)
