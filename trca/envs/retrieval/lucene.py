"""A retriever with Lucene, through the Anserini jar in Pyserini, without importing Pyserini.

Needs Java, and the extra ``lucene``, then ``pip install --no-deps pyserini==0.25.0``. With its
dependencies, none of which this module uses, Pyserini takes 1.9 GB.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from trca.common.extras import install
from trca.common.shared import Shared
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError

PYSERINI: Final = "pyserini==0.25.0"
_MEMORY: Final = "512m"
_SEARCHER: Final = "io.anserini.search.SimpleSearcher"
_INDEXER: Final = "io.anserini.index.IndexCollection"
_MOST_TERMS: Final = 1 << 20


class LuceneRetriever(Shared):
    """A `Retriever` over a Lucene index with stored raw documents; the first one starts Java."""

    def __init__(self, index: str | Path) -> None:
        """Opens an index of `build_lucene`, Anserini or Pyserini.

        Raises:
            RetrievalError: If Java, Anserini or the index is missing or broken.
        """
        folder = Path(index)
        if not folder.is_dir():
            raise RetrievalError(f"{folder}: there is no Lucene index here: build one")
        searcher = _java_class(_SEARCHER)
        try:
            # Every word of a query is a clause; Lucene's default limit is 1,024 clauses.
            _java_class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_MOST_TERMS)
            self._searcher = searcher(str(folder))
            self._searcher.set_bm25(0.9, 0.4)
        except Exception as error:
            raise RetrievalError(f"{folder}: Lucene cannot open this index ({error})") from None

    def search(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages for each query; see `Retriever.search`."""
        lists = _java_class("java.util.ArrayList")
        texts, numbers = lists(), lists()
        for number, query in enumerate(queries):
            texts.add(query.encode("utf-8", "replace").decode())
            numbers.add(str(number))
        try:
            results = self._searcher.batch_search(texts, numbers, limit, 1)
        except Exception as error:
            raise RetrievalError(f"Lucene failed: {error}") from None
        hits = (results.get(str(number)) for number in range(len(queries)))
        return [[_passage(hit) for hit in each] for each in hits]

    def close(self) -> None:
        """Closes the index."""
        self._searcher.close()


def build_lucene(folder: Path, passages: Iterable[Passage], threads: int = 1) -> None:
    """Indexes passages with Anserini's defaults, in a separate Java process with some threads.

    Raises:
        FileExistsError: If the folder exists.
        RetrievalError: If Java or Anserini is missing or fails.
    """
    java, jar = preflight()
    if folder.exists():
        raise FileExistsError(f"{folder} exists: delete it or choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
        work = Path(name)
        (work / "corpus").mkdir()
        with (work / "corpus" / "passages.jsonl").open("w") as file:
            for passage in passages:
                file.write(json.dumps({"id": passage.id, "contents": passage.contents}) + "\n")
        command = [str(java), f"-Xmx{_MEMORY}", "-cp", str(jar), _INDEXER]
        command += ["-collection", "JsonCollection", "-input", str(work / "corpus")]
        command += ["-index", str(work / "index"), "-threads", str(threads)]
        command += ["-generator", "DefaultLuceneDocumentGenerator", "-storeRaw"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()[-3:]
            raise RetrievalError(f"Anserini failed to index: {' '.join(map(str.strip, lines))}")
        os.rename(work / "index", folder)


def preflight() -> tuple[Path, Path]:
    """Locates the java program and Anserini's jar; the error has install commands."""
    spec = find_spec("pyserini")
    folders = map(Path, (spec and spec.submodule_search_locations) or ())
    jars = [jar for each in folders for jar in each.glob("resources/jars/anserini-*-fatjar.jar")]
    if not jars:
        raise RetrievalError(f"Lucene needs Pyserini's jar: pip install --no-deps {PYSERINI}")
    jar = max(jars)
    with zipfile.ZipFile(jar) as archive, archive.open(f"{_SEARCHER.replace('.', '/')}.class") as c:
        needed = int.from_bytes(c.read(8)[6:]) - 44  # the version of the class file
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    advice = (
        f"install Java {needed} or newer (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-"
        f"headless; macOS: brew install openjdk@17), and set JAVA_HOME if it is not on the PATH"
    )
    if java is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise RetrievalError(f"Lucene needs Java, but Java is not {where}: {advice}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None or int(version[1]) < needed:
        first_line = output.partition("\n")[0] or "no answer"
        raise RetrievalError(f"{java} is too old for {jar.name} ({first_line}): {advice}")
    return Path(java), jar


def _java_class(name: str) -> Any:
    try:
        import jnius_config
    except ImportError:
        preflight()  # names a missing Java first
        raise RetrievalError(f"Lucene needs pyjnius: {install('lucene')}") from None
    if not jnius_config.vm_running:
        java, jar = preflight()
        os.environ.setdefault("JAVA_HOME", str(java.resolve().parents[1]))
        jnius_config.add_options(f"-Xmx{_MEMORY}", "-Xrs")  # -Xrs leaves Ctrl-C to Python
        jnius_config.add_classpath(str(jar))
    from jnius import JavaException, autoclass

    try:
        return autoclass(name)
    except JavaException as error:
        raise RetrievalError(f"this process runs Java without Anserini ({error})") from None


def _passage(hit: Any) -> Passage:
    raw = hit.lucene_document.get("raw")
    if raw is None:
        raise RetrievalError("this Lucene index has no raw documents: index with -storeRaw")
    return Passage(hit.docid, json.loads(raw)["contents"], hit.score)
