"""Dense retrieval on one core, compared with its upper limit, the speed of the encoder.

    python benchmarks/dense.py --corpus corpus.jsonl.xz --questions *.jsonl --sizes 22085 100000

Without ``--model`` the encoder is a BERT of random weights with two layers of width 128: the values
of weights do not affect the speed. The index is exact (``Flat``). Seconds are processor time. The
corpus is enlarged as in ``retrieval.py``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from measuring import timed
from retrieval import enlarged
from rich.console import Console
from rich.table import Table
from transformers import BertConfig, BertModel, BertTokenizerFast

from trca.envs.retrieval.dense import Encoder, Encoding, index_dense
from trca.envs.retrieval.passages import Passage, read_corpus
from trca.envs.retrieval.retriever import open_retriever

LIMIT = 10
VOCABULARY = 20_000
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def make_encoder(folder: Path, passages: Sequence[Passage]) -> str:
    """Creates a small BERT of random weights, with the words of the passages as vocabulary."""
    words = Counter(word for p in passages for word in p.contents.lower().split())
    folder.mkdir()
    names = [*SPECIAL, *(word for word, _ in words.most_common(VOCABULARY))]
    (folder / "vocab.txt").write_text("\n".join(names))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


def measured(
    folder: Path, passages: Sequence[Passage], questions: Sequence[str], model: str
) -> list[tuple[str, ...]]:
    """Returns rows of the table: dense retrieval over the passages, and only the encoder."""
    encoding = Encoding.usual(model)
    building, _ = timed(lambda: index_dense(folder, passages, encoding, device="cpu"))
    loading, dense = timed(lambda: open_retriever("dense", index=str(folder), device="cpu"))
    about = (f"{len(passages):,}", f"{building:.0f}", f"{loading:.2f}")
    return [
        (*about, "dense, queries/s", *rates(lambda asked: dense.search(asked, LIMIT), questions)),
        ("", "", "", "the encoder alone", *rates(Encoder(encoding, "cpu").queries, questions)),
    ]


def rates(ask: Callable[[Sequence[str]], object], questions: Sequence[str]) -> tuple[str, str]:
    """Returns queries per second, one by one and in one batch."""
    ask(questions[:64])
    one, _ = timed(lambda: [ask([question]) for question in questions])
    every, _ = timed(lambda: ask(questions))
    return f"{len(questions) / one:,.0f}", f"{len(questions) / every:,.0f}"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[22_085])
    parser.add_argument("--model", help="folder or hub name of an encoder")
    args = parser.parse_args()
    torch.set_num_threads(1)
    passages = [replace(passage, score=None) for passage in read_corpus(args.corpus)]
    questions = [json.loads(line)["question"] for path in args.questions for line in path.open()]
    table = Table("passages", "build, s", "load, s", "", "one by one", "at once")
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or make_encoder(Path(folder) / "encoder", passages)
        for size in args.sizes:
            for row in measured(Path(folder) / "index", enlarged(passages, size), questions, model):
                table.add_row(*row)
            shutil.rmtree(Path(folder) / "index")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
