"""The world: which of how many nodes, ranks and workers this process is. The only file that reads the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tombola._ints import integer
from tombola.errors import WorldError


@dataclass(frozen=True, kw_only=True)
class World:
    """Nodes × ranks × workers, and which one of them this is.

    `rank` counts over all nodes, node after node, as torchrun numbers them. `replication` consecutive ranks read the
    same rows (tensor or pipeline parallelism); they count as one reader.

    >>> world = World(rank=5, ranks=8, nodes=2)
    >>> world.node, world.ranks_per_node
    (1, 4)
    >>> World(rank=5, ranks=8, replication=2).reader
    2
    """

    rank: int = 0
    ranks: int = 1
    node: int | None = None
    nodes: int = 1
    worker: int = 0
    workers: int = 1
    replication: int = 1

    def __post_init__(self) -> None:
        # What is kept are Python's own numbers: a small NumPy one would wrap round in the arithmetic of positions.
        for count, one in (("ranks", "rank"), ("nodes", "node"), ("workers", "worker")):
            most = integer(getattr(self, count), count, 1, 2**31, WorldError)
            object.__setattr__(self, count, most)
            if one != "node" or self.node is not None:
                value = integer(getattr(self, one), f"{one} (of {most})", 0, most - 1, WorldError)
                object.__setattr__(self, one, value)
        object.__setattr__(self, "replication", integer(self.replication, "replication", 1, 2**31, WorldError))
        if self.ranks % self.nodes:
            raise WorldError(f"{self.ranks} ranks do not spread evenly over {self.nodes} nodes")
        if self.ranks % self.replication:
            raise WorldError(
                f"replication is {self.replication}, which does not divide the {self.ranks} ranks; "
                f"every group of replicas must be whole"
            )
        derived = self.rank // self.ranks_per_node
        if self.node is not None and self.node != derived:
            raise WorldError(
                f"node is {self.node}, but rank {self.rank} of {self.ranks} over {self.nodes} nodes is on node "
                f"{derived}: ranks are numbered node after node"
            )
        object.__setattr__(self, "node", derived)

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each node."""
        return self.ranks // self.nodes

    @property
    def readers(self) -> int:
        """How many different shares there are: ranks ÷ replication."""
        return self.ranks // self.replication

    @property
    def reader(self) -> int:
        """Which share this rank reads."""
        return self.rank // self.replication

    def nodes_of_reader(self, reader: int) -> range:
        """The nodes on which the ranks of a reader live."""
        first = reader * self.replication
        return range(first // self.ranks_per_node, (first + self.replication - 1) // self.ranks_per_node + 1)

    @classmethod
    def detect(cls, *, replication: int = 1, environ: Mapping[str, str] | None = None) -> World:
        """The world as the surroundings tell it; nothing is initialised and nothing imported.

        In this order: torch.distributed when its process group exists, jax.distributed when it is connected, the
        variables RANK and WORLD_SIZE (with LOCAL_RANK and LOCAL_WORLD_SIZE for the nodes), those of a SLURM step,
        else one process. Inside a torch DataLoader worker the worker is filled in too.

        >>> World.detect(environ={"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}).node
        1
        """
        given = os.environ if environ is None else environ
        found = _from_torch(given) or _from_jax() or _from_launcher(given) or _from_slurm(given) or cls()
        worker, workers = _torch_worker()
        return replace(found, node=None, worker=worker, workers=workers, replication=replication)


def _from_torch(environ: Mapping[str, str]) -> World | None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    return World(rank=rank, ranks=ranks, nodes=_nodes(rank, ranks, environ))


def _from_jax() -> World | None:
    # jax.process_index() would start a backend, so the state that jax.distributed.initialize left is read instead.
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if state is None or getattr(state, "client", None) is None:
        return None
    # JAX runs one process a node, or leaves the number of processes a node to the user: each counts as a node.
    return World(rank=state.process_id, ranks=state.num_processes, nodes=state.num_processes)


def _from_launcher(environ: Mapping[str, str]) -> World | None:
    rank, ranks = _whole(environ, "RANK"), _whole(environ, "WORLD_SIZE")
    if rank is None and ranks is None:
        return None
    if rank is None or ranks is None:
        there, missing = ("RANK", "WORLD_SIZE") if ranks is None else ("WORLD_SIZE", "RANK")
        if ranks == 1:
            return World()
        raise WorldError(f"the environment has {there} but not {missing}; set both, or pass a World")
    return World(rank=rank, ranks=ranks, nodes=_nodes(rank, ranks, environ))


def _nodes(rank: int, ranks: int, environ: Mapping[str, str]) -> int:
    """How many nodes LOCAL_WORLD_SIZE tells of; 1 when it is not set or the nodes are not all alike."""
    local_ranks, local_rank = _whole(environ, "LOCAL_WORLD_SIZE"), _whole(environ, "LOCAL_RANK")
    if not local_ranks or ranks % local_ranks or (local_rank is not None and rank % local_ranks != local_rank):
        return 1
    return ranks // local_ranks


def _from_slurm(environ: Mapping[str, str]) -> World | None:
    rank = _whole(environ, "SLURM_PROCID")
    # The step's own count comes first: a batch script that starts one process sees the job's SLURM_NTASKS too.
    ranks = _whole(environ, "SLURM_STEP_NUM_TASKS") or _whole(environ, "SLURM_NTASKS")
    if rank is None or ranks is None:
        return None
    nodes = _whole(environ, "SLURM_STEP_NUM_NODES") or _whole(environ, "SLURM_NNODES") or 1
    node, local = _whole(environ, "SLURM_NODEID"), _whole(environ, "SLURM_LOCALID")
    if ranks % nodes or (node is not None and rank // (ranks // nodes) != node):
        nodes = 1  # tasks dealt round the nodes, or unevenly: only locality is lost
    elif local is not None and rank % (ranks // nodes) != local:
        nodes = 1
    return World(rank=rank, ranks=ranks, nodes=nodes)


def _torch_worker() -> tuple[int, int]:
    data: Any = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (0, 1) if info is None else (info.id, info.num_workers)


def _whole(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise WorldError(f"the environment variable {name} is {text!r}; it must be a whole number") from None
