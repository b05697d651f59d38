"""Processes that meet in a group of PyTorch's, as learners do."""

import os
import pickle
import traceback

import torch


def in_a_process_of_its_own(function, rank, folder):
    """Starts the function in a fork of this process; call what it returns for the result."""
    path = folder / f"result-{rank}"
    child = os.fork()
    if not child:
        try:
            path.write_bytes(pickle.dumps((function(rank), "")))
        except BaseException:
            path.write_bytes(pickle.dumps((None, traceback.format_exc())))
        finally:
            os._exit(0)

    def wait():
        os.waitpid(child, 0)
        result, error = pickle.loads(path.read_bytes())
        assert not error, error
        return result

    return wait


def together(function, count, folder):
    """The results of the function, called with its rank in each of so many processes of a group.

    The folder serves one meeting.
    """

    def act(rank):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=count
        )
        return function(rank)

    results = [in_a_process_of_its_own(act, rank, folder) for rank in range(count)]
    return [wait() for wait in results]
