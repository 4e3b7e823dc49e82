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
        assert other.node in other.nodes_of_reader(other.reader)
        assert 0 <= other.reader < other.readers


def test_one_process_when_nothing_is_set() -> None:
    assert World.detect(environ={}) == World()


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
        # Tasks dealt round the nodes one by one.
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_NODEID": "1"}, 1, 4, 0, 1),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, 1, 2, 0, 1),
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
        (lambda: World.detect(environ={"RANK": "1"}), "RANK but not WORLD_SIZE"),
        (lambda: World.detect(environ={"WORLD_SIZE": "2"}), "WORLD_SIZE but not RANK"),
        (lambda: World.detect(environ={"RANK": "one", "WORLD_SIZE": "2"}), "RANK is 'one'"),
    ],
)
def test_bad_worlds(make, words: str) -> None:
    with pytest.raises(WorldError) as caught:
        make()
    assert words in str(caught.value)


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
    pytest.importorskip("torch")
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
    pytest.importorskip("torch")
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
    pytest.importorskip("jax")
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
