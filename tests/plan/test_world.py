"""The world from arguments, from the environment, and from real process groups."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given

from tests.strategies import worlds
from tombola.errors import WorldError
from tombola.plan import World


@given(worlds())
def test_ranks_nodes_and_replicas_fit(world: World) -> None:
    for rank in range(world.ranks):
        other = World(rank=rank, ranks=world.ranks, nodes=world.nodes, replication=world.replication)
        assert other.node == rank // other.ranks_per_node
        assert other.ranks_per_node * other.nodes == other.ranks
        assert other.reader == rank // other.replication
        assert 0 <= other.reader < other.readers


def test_one_process_when_nothing_is_set() -> None:
    assert World.detect(environ={}) == World()


def slurm(rank: int, ranks: int, nodes: int = 1) -> dict[str, str]:
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(ranks), "SLURM_NNODES": str(nodes)}


def mpi(rank: int, ranks: int, *local: int) -> dict[str, str]:
    words = zip(("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"), (rank, ranks, *local), strict=False)
    return {f"OMPI_COMM_WORLD_{word}": str(value) for word, value in words}


@pytest.mark.parametrize(
    ("environ", "rank", "ranks", "node", "nodes"),
    [
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, 5, 8, 1, 2),
        ({"RANK": "5", "WORLD_SIZE": "8"}, 5, 8, 0, 1),
        # Nodes of different sizes: nothing can be said of them.
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}, 5, 8, 0, 1),
        ({"WORLD_SIZE": "1"}, 0, 1, 0, 1),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_NODEID": "1"}, 3, 4, 1, 2),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}, 0, 1, 0, 1),
        ({"SLURM_PROCID": "0"}, 0, 1, 0, 1),  # a batch script without --ntasks
        # Tasks dealt round the nodes one by one.
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_NODEID": "1"}, 1, 4, 0, 1),
        # Dealt round: the node is as expected, or not told, and only the place on it gives them away.
        ({**slurm(2, 8, 2), "SLURM_NODEID": "0", "SLURM_LOCALID": "1"}, 2, 8, 0, 1),
        ({**slurm(1, 4, 2), "SLURM_LOCALID": "0"}, 1, 4, 0, 1),
        ({**slurm(5, 8, 2), "SLURM_NODEID": "1", "SLURM_LOCALID": "1"}, 5, 8, 1, 2),
        ({**slurm(5, 8, 2), "SLURM_LOCALID": "1"}, 5, 8, 1, 2),
        # The nodes of the job are not those of its step.
        ({**slurm(1, 2, 4), "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "1"}, 1, 2, 1, 2),
        (slurm(1, 2, 4), 1, 2, 0, 1),
        ({"RANK": "1", "WORLD_SIZE": "2", **slurm(3, 4)}, 1, 2, 0, 1),
        # A shell inside an allocation.
        ({"SLURM_NTASKS": "4", "SLURM_NNODES": "2"}, 0, 1, 0, 1),
        (mpi(5, 8), 5, 8, 0, 1),
        (mpi(5, 8, 1, 4), 5, 8, 1, 2),
        (mpi(5, 8, 2, 4), 5, 8, 0, 1),
        ({**mpi(5, 8), **slurm(0, 1)}, 5, 8, 0, 1),
        ({**mpi(5, 8), "RANK": "1", "WORLD_SIZE": "2"}, 1, 2, 0, 1),
        # An empty variable is one that is not set.
        ({"RANK": "", "WORLD_SIZE": "", "SLURM_PROCID": ""}, 0, 1, 0, 1),
        ({"RANK": "007", "WORLD_SIZE": "08"}, 7, 8, 0, 1),
    ],
)
def test_environment(environ, rank: int, ranks: int, node: int, nodes: int) -> None:
    world = World.detect(environ=environ)
    assert (world.rank, world.ranks, world.node, world.nodes) == (rank, ranks, node, nodes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: World(rank=2, ranks=2), "rank (of 2) is 2"),
        (lambda: World(ranks=0), "ranks is 0"),
        (lambda: World(ranks=6, nodes=4), "6 ranks do not spread evenly over 4 nodes"),
        (lambda: World(rank=3, ranks=4, nodes=2, node=0), "is on node 1"),
        (lambda: World(ranks=4, replication=3), "replication is 3"),
        (lambda: World(worker=1), "worker (of 1) is 1"),
    ],
)
def test_bad_worlds(make, words: str) -> None:
    with pytest.raises(WorldError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RANK": "1"}, "RANK but not WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE but not RANK"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_RANK but not OMPI_COMM_WORLD_SIZE"),
        ({"OMPI_COMM_WORLD_SIZE": "3"}, "OMPI_COMM_WORLD_SIZE but not OMPI_COMM_WORLD_RANK"),
        ({"SLURM_PROCID": "3"}, "SLURM_PROCID but neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS"),
        ({"RANK": "5", "WORLD_SIZE": "4"}, "RANK is 5, but WORLD_SIZE is 4"),
        ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK is 2, but"),
        (mpi(8, 8), "OMPI_COMM_WORLD_RANK is 8, but OMPI_COMM_WORLD_SIZE is 8"),
        (slurm(4, 4), "SLURM_PROCID is 4, but SLURM_NTASKS is 4"),
        ({**slurm(2, 4), "SLURM_STEP_NUM_TASKS": "2"}, "SLURM_PROCID is 2, but SLURM_STEP_NUM_TASKS is 2"),
    ],
)
def test_an_environment_that_contradicts_itself(environ: dict[str, str], words: str) -> None:
    with pytest.raises(WorldError) as caught:
        World.detect(environ=environ)
    assert words in str(caught.value)


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
SLURM = {
    **{**slurm(1, 2), "SLURM_NODEID": "0", "SLURM_LOCALID": "1"},
    **{"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"},
}


@pytest.mark.parametrize(
    "text", ["-4", "one", "1_0", " 1", "1.0", "+1", "0x1", "\u0661", "²", str(2**31 + 1), "9" * 5000]
)
@pytest.mark.parametrize(
    ("environ", "name"), [(given, name) for given in (TORCHRUN, mpi(1, 2, 1, 2), SLURM) for name in given]
)
def test_only_plain_whole_numbers_count(environ: dict[str, str], name: str, text: str) -> None:
    assert World.detect(environ=environ).rank == 1
    with pytest.raises(WorldError) as caught:
        World.detect(environ={**environ, name: text})
    assert f"the environment variable {name} is {text[:20]!r}"[:-1] in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "name",
    [
        *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        *("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_NNODES", "SLURM_STEP_NUM_NODES"),
    ],
)
def test_a_count_of_nothing_is_refused(name: str) -> None:
    environ = next(given for given in (TORCHRUN, mpi(1, 2, 1, 2), SLURM) if name in given)
    with pytest.raises(WorldError, match=f"{name} is '0'; it must be a whole number from 1"):
        World.detect(environ={**environ, name: "0"})


def run(code: str, *arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_a_real_torch_group() -> None:
    code = """
        import torch.distributed as dist
        from tombola import World
        assert World.detect(environ={}) == World()
        dist.init_process_group("gloo", rank=0, world_size=1)
        print(World.detect().rank, World.detect().ranks)
    """
    out = run(code, free_port(), MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), RANK="3", WORLD_SIZE="4")
    assert out == "0 1"  # the group that exists comes before the environment


def test_torch_workers() -> None:
    code = """
        import torch.utils.data as data
        from tombola import World

        class Show(data.IterableDataset):
            def __iter__(self):
                world = World.detect(environ={})
                yield f"{world.worker}/{world.workers}"

        print(*(row for row in data.DataLoader(Show(), num_workers=2, batch_size=None)))
    """
    assert run(code) == "0/2 1/2"


def test_jax_is_neither_imported_nor_started() -> None:
    code = """
        import sys
        from tombola import World
        World.detect()
        assert "jax" not in sys.modules and "torch" not in sys.modules
        import jax
        from jax._src import xla_bridge
        assert World.detect(environ={}) == World()
        assert not xla_bridge.backends_are_initialized()
        jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", num_processes=1, process_id=0)
        world = World.detect(environ={"RANK": "3", "WORLD_SIZE": "4"})
        print(world.rank, world.ranks, xla_bridge.backends_are_initialized())
    """
    assert run(code, free_port(), JAX_PLATFORMS="cpu") == "0 1 False"
