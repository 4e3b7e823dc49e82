"""The world: which of how many nodes, ranks and workers this process is. The only file that reads the environment."""

from __future__ import annotations

import os
import re
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

    @classmethod
    def detect(cls, *, replication: int = 1, environ: Mapping[str, str] | None = None) -> World:
        """The world as the surroundings tell it; nothing is initialised and nothing imported.

        In this order: torch.distributed when its process group exists, jax.distributed when it is connected, the
        variables RANK and WORLD_SIZE (with LOCAL_RANK and LOCAL_WORLD_SIZE for the nodes), those of Open MPI
        (OMPI_COMM_WORLD_RANK and so on), those of a SLURM step, else one process. Inside a torch DataLoader worker the
        worker is filled in too. A variable that makes no sense, or a rank without a count, is an error.

        >>> World.detect(environ={"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}).node
        1
        """
        given = os.environ if environ is None else environ
        found = (
            _from_torch(given)
            or _from_jax()
            or _from_launcher(given, _TORCHRUN)
            or _from_launcher(given, _OPEN_MPI)
            or _from_slurm(given)
            or cls()
        )
        worker, workers = _torch_worker()
        return replace(found, node=None, worker=worker, workers=workers, replication=replication)


@dataclass(frozen=True)
class _Names:
    """What a launcher calls its variables."""

    rank: str
    ranks: str
    local_rank: str
    local_ranks: str


_TORCHRUN = _Names("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_OPEN_MPI = _Names(*(f"OMPI_COMM_WORLD_{word}" for word in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")))
_COUNT_MAX = 2**31


def _from_torch(environ: Mapping[str, str]) -> World | None:
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    return World(rank=rank, ranks=ranks, nodes=_nodes(rank, ranks, environ, _TORCHRUN))


def _from_jax() -> World | None:
    # jax.process_index() would start a backend, so the state that jax.distributed.initialize left is read instead.
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if state is None or getattr(state, "client", None) is None:
        return None
    # JAX runs one process a node, or leaves the number of processes a node to the user: each counts as a node.
    return World(rank=state.process_id, ranks=state.num_processes, nodes=state.num_processes)


def _from_launcher(environ: Mapping[str, str], names: _Names) -> World | None:
    rank, ranks = _number(environ, names.rank), _count(environ, names.ranks)
    if rank is None and ranks is None:
        return None
    if rank is None or ranks is None:
        there, missing = (names.rank, names.ranks) if ranks is None else (names.ranks, names.rank)
        if ranks == 1:
            return World()
        raise WorldError(f"the environment has {there} but not {missing}; set both, or pass a World")
    _below(rank, names.rank, ranks, names.ranks)
    return World(rank=rank, ranks=ranks, nodes=_nodes(rank, ranks, environ, names))


def _nodes(rank: int, ranks: int, environ: Mapping[str, str], names: _Names) -> int:
    """How many nodes the local count tells of; 1 when it is not set or the nodes are not all alike."""
    local_rank, local_ranks = _number(environ, names.local_rank), _count(environ, names.local_ranks)
    if local_ranks is None:
        return 1
    if local_rank is not None:
        _below(local_rank, names.local_rank, local_ranks, names.local_ranks)
    if ranks % local_ranks or (local_rank is not None and rank % local_ranks != local_rank):
        return 1
    return ranks // local_ranks


def _from_slurm(environ: Mapping[str, str]) -> World | None:
    rank = _number(environ, "SLURM_PROCID")
    if rank is None:
        return None  # a shell inside an allocation: no task of a step
    # The step's own count comes first: a batch script that starts one process sees the job's SLURM_NTASKS too.
    ranks, ranks_name = _first_count(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    nodes, _ = _first_count(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    node, local_rank = _number(environ, "SLURM_NODEID"), _number(environ, "SLURM_LOCALID")
    if ranks is None and rank == 0:
        return None  # a batch script that asked for no number of tasks: it runs once
    if ranks is None:
        raise WorldError(
            "the environment has SLURM_PROCID but neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS; "
            "set SLURM_NTASKS (sbatch --ntasks), or pass a World"
        )
    _below(rank, "SLURM_PROCID", ranks, ranks_name)
    per_node = ranks // nodes if nodes is not None and ranks % nodes == 0 else None
    if per_node is None or node not in (None, rank // per_node) or local_rank not in (None, rank % per_node):
        nodes = 1  # tasks dealt round the nodes, or unevenly: only locality is lost
    return World(rank=rank, ranks=ranks, nodes=nodes or 1)


def _torch_worker() -> tuple[int, int]:
    data: Any = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (0, 1) if info is None else (info.id, info.num_workers)


def _below(one: int, one_name: str, count: int, count_name: str) -> None:
    if one >= count:
        raise WorldError(
            f"the environment variable {one_name} is {one}, but {count_name} is {count}: ranks count from 0; "
            f"correct one of them, or pass a World"
        )


def _first_count(environ: Mapping[str, str], *names: str) -> tuple[int | None, str]:
    """The first of these counts that is set, and its name. All are read: one that makes no sense is an error."""
    counts = [(_count(environ, name), name) for name in names]
    return next((found for found in counts if found[0] is not None), counts[-1])


def _count(environ: Mapping[str, str], name: str) -> int | None:
    return _number(environ, name, 1)


def _number(environ: Mapping[str, str], name: str, least: int = 0) -> int | None:
    text = environ.get(name)
    if text is None or text == "":
        return None
    # int() would take "1_0", " 7", "+7" and the digits of every script; no launcher writes those. The length is
    # bounded because int() refuses very long texts with an error of its own.
    number = int(text) if re.fullmatch(r"[0-9]{1,20}", text) else -1
    if not least <= number <= _COUNT_MAX:
        said = repr(text if len(text) <= 40 else text[:40] + "…")
        raise WorldError(
            f"the environment variable {name} is {said}; it must be a whole number from {least} to {_COUNT_MAX}"
        )
    return number
