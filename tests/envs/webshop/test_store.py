import multiprocessing
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from trca.envs.webshop.data import generate
from trca.envs.webshop.data.catalogue import Catalogue
from trca.envs.webshop.data.sources import generated_source, open_store

COUNT = 300


def counted(count=COUNT):
    """A source, and a list with an entry for each time that the source is read."""
    source, reads = generated_source(count), []

    def read(progress):
        reads.append(progress)
        return source.read(progress)

    return replace(source, read=read), reads


def dying(progress):
    """Yields some products, and fails in the middle."""
    for number, entry in enumerate(generated_source(COUNT).read(progress)):
        if number == 100:
            raise KeyboardInterrupt
        yield entry


def place(source, folder):
    """The folder of a source's store."""
    (folder_of_source,) = folder.glob(f"{source.key}-????????")
    return folder_of_source


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    open_store(generated_source(COUNT), folder)
    return folder


@pytest.fixture
def stores(built, tmp_path):
    return shutil.copytree(built, tmp_path / "stores")


def test_a_store_holds_what_a_catalogue_in_memory_holds(built):
    source = generated_source(COUNT)
    stored = open_store(source, built)
    memory = Catalogue.of(source.read(lambda done: None))
    products = [memory[i] for i in range(COUNT)]
    assert [stored[i] for i in range(len(stored))] == products
    assert [stored.position(p.asin) for p in products] == list(range(COUNT))
    assert stored.ranged == memory.ranged
    assert list(stored.instructed) == list(memory.instructed)
    assert list(stored.human_instructions.items()) == list(memory.human_instructions.items())
    assert stored.hash == memory.hash
    for query in ("jute rug", "stackable glass mug in red", "gluten free"):
        for ours, theirs in zip(
            stored.index.search(query, 50), memory.index.search(query, 50), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("asin", ["", "BAN10BAN1", "BAN10BAN1000", "ÄÖ\ud800", "BAN10BAN10\0"])
def test_an_asin_that_is_not_in_a_store_is_named(built, asin):
    with pytest.raises(KeyError):
        open_store(generated_source(COUNT), built).position(asin)


def test_a_store_is_built_once(tmp_path):
    source, reads = counted()
    open_store(source, tmp_path)
    open_store(source, tmp_path)
    assert len(reads) == 1


@pytest.mark.parametrize(
    "file",
    ["products/records.npy", "products/ends.npy", "products/contents.json", "index/contents.json"],
)
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_store_is_named_and_built_again(stores, capfd, file, damage):
    source, reads = counted()
    path = place(source, stores) / file
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "changed":
            path.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])
        case "gone":
            path.unlink()
    catalogue = open_store(source, stores)
    assert len(reads) == 1
    drawn, _ = generate.draw(COUNT - 1)
    assert replace(catalogue[COUNT - 1], price=drawn.price) == drawn
    stderr = capfd.readouterr().err
    assert str(path.parent) in stderr
    assert "Building the catalogue again" in stderr
    assert path.read_bytes() == data


def test_a_build_that_dies_leaves_no_store(tmp_path):
    source = replace(generated_source(COUNT), read=dying)
    with pytest.raises(KeyboardInterrupt):
        open_store(source, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert len(open_store(generated_source(COUNT), tmp_path)) == COUNT


def test_what_a_killed_build_left_is_cleared_away(tmp_path):
    source = generated_source(COUNT)
    open_store(source, tmp_path)
    whole = place(source, tmp_path)
    (whole / "products" / "records.npy").unlink()
    whole.rename(whole.with_name(f".{whole.name}.part"))
    assert len(open_store(source, tmp_path)) == COUNT
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".lock"}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the superuser")
def test_a_folder_that_cannot_be_written_to_is_named_with_the_mend(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"cannot write here .*TRCA_CACHE"):
        open_store(generated_source(COUNT), tmp_path / "stores")


def _open_and_count(folder, results):
    source, reads = counted()
    results.put((len(open_store(source, folder)), len(reads)))


def test_of_processes_that_ask_at_once_one_builds(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    asking = [context.Process(target=_open_and_count, args=(tmp_path, results)) for _ in range(3)]
    for process in asking:
        process.start()
    counts = [results.get(timeout=600) for _ in asking]
    for process in asking:
        process.join()
    assert [count for count, _ in counts] == [COUNT] * 3
    assert sum(reads for _, reads in counts) == 1


def test_an_open_store_keeps_no_products_in_memory(built):
    catalogue = open_store(generated_source(COUNT), built)
    assert len([catalogue[position] for position in range(COUNT)]) == COUNT
    arrays = list(catalogue._tables.values())
    assert len(arrays) == 7
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)
