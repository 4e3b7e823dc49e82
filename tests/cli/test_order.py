"""`tombola order`: what it prints is what the plan says, and what is wrong leaves one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tombola
from tombola.cli import main
from tombola.order import Lanes, Layout, Order, Sequential, make_spec
from tombola.plan import Plan, World


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["order", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def make(seed: int = 0, **options: Any) -> Order:
    return Lanes(**options).over(Layout([300, 0, 41, 277, 500]), seed=seed)


LAYOUT = "300,0,41,277,500"


@pytest.mark.parametrize("epoch", [0, 3])
def test_at(capsys: pytest.CaptureFixture[str], epoch: int) -> None:
    words = ["--lanes", "8", "--seed", "7", "--epoch", str(epoch), "--ranks", "4", "--batch-size", "64"]
    found = printed(capsys, LAYOUT, *words, "--at", "0", "1117", "70")["positions"]
    order = make(7, lanes=8)
    plan = Plan(order, World(ranks=4), 64)
    assert [entry["position"] for entry in found] == [0, 1117, 70]
    assert [entry["record"] for entry in found] == order.at([0, 1117, 70], epoch).tolist()
    assert [entry["lane"] for entry in found] == [0, 1117 % 8, 70 % 8]
    assert [entry["rank"] for entry in found] == [0, 1117 % 4, 70 % 4]
    assert [entry["step"] for entry in found] == [0, None, 1]  # 1117 // 64 is the batch that is dropped
    for entry in found:
        shard, place = order.layout.locate([entry["record"]])
        assert (entry["shard"], entry["place"]) == (shard[0], place[0])
    row = plan.batch(1, epoch).records.tolist()
    assert found[2]["record"] not in row  # rank 70 mod 4 = 2 reads it, this plan is rank 0's
    mine = Plan(order, World(rank=2, ranks=4), 64).batch(1, epoch).records.tolist()
    assert mine[found[2]["row"]] == found[2]["record"]


def test_find_is_the_way_back(capsys: pytest.CaptureFixture[str]) -> None:
    at = printed(capsys, LAYOUT, "--lanes", "3", "--window", "2", "--at", "5", "900")
    records = [str(entry["record"]) for entry in at["positions"]]
    assert printed(capsys, LAYOUT, "--lanes", "3", "--window", "2", "--find", *records) == at


def test_head(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, LAYOUT, "--head", "10")["positions"]
    assert [entry["record"] for entry in found] == make().slice(0, 10).tolist()
    assert len(printed(capsys, "2,3", "--head", "10")["positions"]) == 5
    assert printed(capsys, "2,3", "--head", "0")["positions"] == []


def test_the_summary_of_an_epoch_that_is_not_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["8x50+4x50", "--order", "concatenation", "--option", 'takes=[{},{"repeat":2.5}]']
    found = printed(capsys, *words)
    assert (found["records"], found["epoch_records"]) == (600, 900)
    assert main(["order", *words]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["records", "600"] in lines
    assert ["epoch", "900", "positions"] in lines


COMBINED = [
    (["mixture", "--option", "weights=[3,1]"], {"weights": [3, 1], "base": {"order": "lanes", "lanes": 4}}),
    (["concatenation"], {"base": {"order": "lanes", "lanes": 4}}),
    (
        ["stratified", "--batch-size", "8"],
        {"batch_size": 8, "combination": {"order": "concatenation", "base": {"order": "lanes", "lanes": 4}}},
    ),
    (
        ["per_stream", "--batch-size", "8", "--option", 'combination={"order":"mixture","weights":[1,2]}'],
        {
            "batch_size": 8,
            "combination": {"order": "mixture", "weights": [1, 2], "base": {"order": "lanes", "lanes": 4}},
        },
    ),
    (
        ["device_per_stream", "--option", "run=2", "--option", "combination=lanes"],
        {"run": 2, "combination": {"order": "lanes", "lanes": 4}},
    ),
    (
        ["subset", "--option", "kept=[1,5,9,30,41,60]", "--option", 'base={"order":"passes","epoch_records":8}'],
        {"kept": [1, 5, 9, 30, 41, 60], "base": {"order": "passes", "epoch_records": 8, "base": "lanes"}},
    ),
    (["mosaic/py1s"], {"canonical_nodes": 4}),
    (["lanes"], {"lanes": 4}),
]


@pytest.mark.parametrize(("words", "options"), COMBINED, ids=[words[0] for words, _ in COMBINED])
def test_lanes_go_to_the_order_that_has_them(
    capsys: pytest.CaptureFixture[str], words: list[str], options: dict[str, Any]
) -> None:
    if words[0] == "subset":
        options = json.loads(json.dumps(options).replace('"base": "lanes"', '"base": {"order": "lanes", "lanes": 4}'))
    layout = Layout.joined([Layout.equal(8, 6), Layout.equal(4, 6)])
    order = make_spec(words[0], **options).over(layout, seed=7)
    words = ["8x6+4x6", "--lanes", "4", "--seed", "7", "--order", *words]
    found = printed(capsys, *words, "--head", "200")["positions"]
    assert [entry["record"] for entry in found] == order.slice(0, min(200, len(order))).tolist()
    assert {entry["lane"] for entry in found} == set(range(4))
    assert printed(capsys, *words)["lanes"] == 4
    assert main(["order", *words]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert ("lanes=4" in shown) != ("canonical_nodes=4" in shown)
    assert "None" not in shown


def test_an_order_without_lanes_anywhere_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "order",
                "8x6",
                "--lanes",
                "4",
                "--order",
                "passes",
                "--option",
                "epoch_records=9",
                "--option",
                "base=global",
            ]
        )
        == 2
    )
    assert "the order 'global' has no option 'lanes'" in capsys.readouterr().err


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["200x50", "--lanes", "16", "--ranks", "8", "--nodes", "2", "--batch-size", "64", "--seed", "1"]
    found = printed(capsys, *words)
    order = Lanes(lanes=16).over(Layout.equal(200, 50), seed=1)
    plan = Plan(order, World(ranks=8, nodes=2), 64)
    first = plan.global_batch(0).records
    assert found["records"] == 10_000
    assert found["shards"] == 200
    assert found["batches"] == plan.steps() == 156
    assert found["first_batch"] == {"records": first.tolist(), "shards": len(set((first // 50).tolist()))}
    assert found["open_shards_max"] == 16
    assert 15 < found["open_shards_mean"] <= 16
    nodes = [Plan(order, World(rank=r, ranks=8, nodes=2), 64).needs(scope="node") for r in (0, 4)]
    assert found["shards_of_nodes"] == [len(needs) for needs in nodes]
    assert found["locality_first"] == plan.locality().first == sum(found["shards_of_nodes"]) / 200
    assert found["locality_later"] == plan.locality().later
    assert found["options"]["lanes"] == 16
    assert found["notes"] == []


def test_notes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["order", "20x50", "--lanes", "4", "--ranks", "8"]) == 0
    assert "share 4 lanes" in capsys.readouterr().out


def test_options_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LAYOUT, "--option", "homes=fresh", "--option", "window_records=20", "--option", "lanes=5"]
    found = printed(capsys, *words, "--head", "40")["positions"]
    order = make(lanes=5, homes="fresh", window_records=20)
    assert [entry["record"] for entry in found] == order.slice(0, 40).tolist()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("sizes.json", lambda path: path.write_text("[300, 0, 41, 277, 500]")),
        ("sizes.npy", lambda path: np.save(path, np.array([300, 0, 41, 277, 500], np.uint16))),
    ],
)
def test_layout_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, write: Any) -> None:
    write(tmp_path / name)
    words = ["--order", "sequential", "--at", "320"]
    assert printed(capsys, str(tmp_path / name), *words) == printed(capsys, LAYOUT, *words)


def test_the_folder_of_a_dataset_is_a_layout(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[1] / "vectors" / "mosaic_formats" / "mds_raw"
    manifest = json.loads((folder / "index.json").read_text())
    for word in (folder, folder / "index.json"):
        main(["order", str(word), "--batch-size", "2", "--json"])
        found = json.loads(capsys.readouterr().out)
        assert found["shards"] == len(manifest["shards"])
        assert found["records"] == sum(shard["samples"] for shard in manifest["shards"])


def test_streams_and_what_combines_them(capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout.joined([Layout.equal(30, 20), Layout([50, 70])])
    base = {"order": "lanes", "lanes": 4}
    for name, options, words in (
        ("mixture", {"weights": [3, 1], "base": base}, ["--ranks", "2"]),
        ("concatenation", {"takes": [{"repeat": 1.5}, {}], "base": base}, []),
        ("stratified", {"batch_size": 8, "combination": {"order": "mixture", "weights": [1, 1], "base": base}}, []),
        ("device_per_stream", {"run": 5, "combination": base}, ["--ranks", "4", "--batch-size", "40"]),
        ("subset", {"kept": [3, 5, 8, 600], "base": base}, []),
    ):
        chosen = [word for key, value in options.items() for word in ("--option", f"{key}={json.dumps(value)}")]
        command = ["30x20+50,70", "--order", name, *chosen, "--seed", "4", *words]
        order = make_spec(name, **options).over(layout, seed=4)
        found = printed(capsys, *command, "--head", "4")["positions"]
        assert [entry["record"] for entry in found] == order.slice(0, 4).tolist()
        assert [entry["lane"] for entry in found] == order.lane_of(np.arange(4)).tolist()
        summary = printed(capsys, *command)
        assert (summary["records"], summary["shards"], summary["order"]) == (720, 32, name)
        plan = Plan(order, World(ranks=int(words[1]) if words else 1), summary["batch_size"])
        assert summary["locality_first"] == plan.locality().first


def test_a_small_dataset_has_a_batch_size_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "5x2", "--order", "sequential", "--ranks", "3")
    assert (found["batch_size"], found["batches"]) == (9, 1)
    assert found["first_batch"]["records"] == Sequential().over(Layout([10])).slice(0, 9).tolist()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["10x0"], "holds no records"),
        (["10x5+10*2"], "'10*2' is not understood"),
        (["10x5+10x5", "--order", "mixture", "--option", "weights=[1,0,1]"], "3 weights for 2 streams"),
        (["10x5", "--order", "subset", "--option", "kept=none.npz"], "none.npz"),
        (["10*10"], "10*10"),
        (["4294967295x1"], "more than the 100000000 shards"),
        ([f"{'9' * 5000}x1"], "a number of 5000 digits"),
        ([f"1x{'9' * 5000}"], "a number of 5000 digits"),
        ([f"5,{'9' * 5000}"], "a number of 5000 digits"),
        ([f"5,-{'9' * 5000}"], "digits"),
        (["5,9999999999999999999"], "a number of 19 digits"),
        (["2x4611686018427387904"], "more than 2^62"),
        (["\u0663x\u0663"], "is not understood"),
        (["5,-1,3"], "shard 1 has -1 records"),
        (["no/such/file.json"], "no/such/file.json"),
        (["10x10", "--order", "nope"], "known are"),
        (["10x10", "--lanes", "0"], "lanes is 0"),
        (["10x10", "--lanes", "many"], "many"),
        (["10x10", "--lane", "3"], "--lane"),
        (["10x10", "--lanes", "101"], "only 100 records"),
        (["10x10", "--option", "speed=9"], "no option 'speed'"),
        (["10x10", "--option", "speed"], "name=value"),
        (["10x10", "--at", "100"], "100 is outside"),
        (["10x10", "--find", "-1"], "-1 is outside"),
        (["10x10", "--head", "-1"], "-1"),
        (["10x10", "--epoch", "-1"], "epoch is -1"),
        (["10x10", "--ranks", "3", "--batch-size", "10"], "9 and 12"),
        (["10x10", "--ranks", "3", "--nodes", "2"], "3 ranks"),
        (["10x10", "--batch-size", "0"], "0"),
        (["10x10", "--tail", "lose"], "lose"),
        (["10x10", "--at", "1", "--find", "2"], "not allowed"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], named: str) -> None:
    try:
        code = main(["order", *words])
    except SystemExit as leaving:  # argparse leaves by itself
        code = leaving.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("tombola: error: ")
    assert err.count("\n") == 1
    assert named in err


def test_a_layout_file_with_long_numbers_or_deep_lists_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "sizes.json"
    for text in (f"[{'9' * 5000}]", "[" * 10**6, "[5, null]", '{"sizes": [5]}', "[5, [6]]", "[5, 6.5]"):
        path.write_text(text)
        assert main(["order", str(path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("tombola: error: ")
        assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS does nothing elsewhere")
@pytest.mark.parametrize("limit_bytes", [3 * 10**8, 2 * 10**9])
def test_too_little_memory_is_one_line(limit_bytes: int) -> None:
    """Whether NumPy or the core runs out first."""
    program = f"""
import resource, sys
from tombola.cli import main
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + {limit_bytes},) * 2)
sys.exit(main(["order", "99999999x1", "--at", "0", "--json"]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert run.stderr.startswith("tombola: error: there is not enough memory")
    assert run.stderr.count("\n") == 1


def test_json_needs_no_rich_and_tables_say_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError('as if it were not installed')\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from tombola.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "order", "10x10", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert json.loads(run("--json").stdout)["records"] == 100
    table = run()
    assert table.returncode == 2
    assert "pip install 'tombola[cli]'" in table.stderr
    assert table.stderr.count("\n") == 1


def test_the_script_is_installed() -> None:
    script = Path(sys.executable).with_name("tombola")
    run = subprocess.run([str(script), "order", "4x100"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "records" in run.stdout


def test_a_closed_pipe_is_no_failure() -> None:
    command = f"set -o pipefail; {sys.executable} -m tombola.cli order 1000x100 --head 3000 | head -1"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    assert run.returncode == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"tombola {tombola.__version__}\n"
