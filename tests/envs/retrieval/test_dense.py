"""Dense retrieval with a small encoder of random weights; vectors follow Search-R1's definition."""

import json

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from trca.envs.retrieval import dense
from trca.envs.retrieval.dense import Encoder, Encoding, index_dense
from trca.envs.retrieval.passages import Passage
from trca.envs.retrieval.retriever import RetrievalError, open_retriever

WORDS = 'red green apple pear stone river city who wrote the query passage : " 0 1 2 3'.split()  # noqa: SIM905
FRUIT = [
    Passage(f"p{number}", f'"{title}"\n{text}')
    for number, (title, text) in enumerate(
        [("apple", "red apple"), ("pear", "the green pear"), ("stone", "river stone"), ("city", "")]
    )
]
QUERIES = ["who wrote the stone", "red", "apple pear " * 50]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Makes folders with encoders, named after their family."""
    folder = tmp_path_factory.mktemp("models")

    def make(name, width=32):
        path = folder / name
        if not path.exists():
            path.mkdir()
            vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
            (path / "vocab.txt").write_text("\n".join(vocabulary))
            BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
            torch.manual_seed(0)
            config = BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=width,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
            )
            BertModel(config).eval().save_pretrained(path)
        return str(path)

    return make


def by_hand(model, text, pooling):
    """The vector of one text, without batch and padding."""
    tokens = BertTokenizerFast.from_pretrained(model)(
        text, return_tensors="pt", truncation=True, max_length=256
    )
    with torch.no_grad():
        output = BertModel.from_pretrained(model)(**tokens)
    states = output.last_hidden_state[0]
    pooled = {"mean": states.mean(0), "cls": states[0], "pooler": output.pooler_output[0]}[pooling]
    return (pooled / pooled.norm()).numpy()


def test_families_are_used_as_they_are_meant():
    e5, bge = Encoding.usual("intfloat/e5-base-v2"), Encoding.usual("BAAI/bge-base-en-v1.5")
    assert (e5.query_prefix, e5.passage_prefix, e5.pooling) == ("query: ", "passage: ", "mean")
    assert (bge.query_prefix[:9], bge.passage_prefix, bge.pooling) == ("Represent", "", "cls")
    assert Encoding.usual("other").query_prefix == ""


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_vectors_are_prefixed_pooled_and_of_length_one(models, pooling):
    model = models("tiny-e5")
    encoder = Encoder(Encoding(model, pooling, "query: ", "passage: "), "cpu", batch=2)
    for vectors, prefix in (
        (encoder.queries(QUERIES), "query: "),
        (encoder.passages(QUERIES), "passage: "),
    ):
        expected = [by_hand(model, prefix + query, pooling) for query in QUERIES]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert encoder.queries([]).shape == (0, 32)


@pytest.mark.parametrize("kind", ["Flat", "SQfp16", "HNSW16", "IVF1,Flat"])
def test_the_nearest_passages_are_found(models, tmp_path, kind):
    model = models("tiny-e5")
    index_dense(tmp_path, FRUIT, Encoding.usual(model), kind, "cpu")
    results = open_retriever("dense", index=tmp_path, device="cpu").search(QUERIES, 3)
    passages = np.array([by_hand(model, f"passage: {p.contents}", "mean") for p in FRUIT])
    for query, hits in zip(QUERIES, results, strict=True):
        scores = passages @ by_hand(model, f"query: {query}", "mean")
        best = np.argsort(-scores)[:3]
        assert [hit.contents for hit in hits] == [FRUIT[number].contents for number in best]
        assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-3)
    assert {path.name for path in tmp_path.iterdir()} == {"passages", "dense", ".lock"}


def test_more_than_there_are_cannot_be_found(models, tmp_path):
    index_dense(tmp_path, FRUIT, Encoding.usual(models("tiny-e5")), device="cpu")
    retriever = open_retriever("dense", index=tmp_path, device="cpu")
    assert [len(hits) for hits in retriever.search(["red"], 100)] == [4]
    assert retriever.search([], 3) == []


def test_encoding_that_was_stopped_goes_on(models, tmp_path, monkeypatch):
    monkeypatch.setattr(dense, "_BLOCK", 1)
    encoding = Encoding.usual(models("tiny-e5"))

    def stop(stage, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_dense(tmp_path, FRUIT, encoding, device="cpu", report=stop)
    encoded = []
    passages = Encoder.passages
    monkeypatch.setattr(
        Encoder, "passages", lambda self, texts: encoded.extend(texts) or passages(self, texts)
    )
    index_dense(tmp_path, (), encoding, device="cpu")
    assert encoded == [passage.contents for passage in FRUIT[2:]]
    assert len(open_retriever("dense", index=tmp_path, device="cpu").search(["red"], 9)[0]) == 4


def test_an_encoder_that_moved_is_named_and_another_is_refused(models, tmp_path):
    index_dense(tmp_path, FRUIT, Encoding.usual(models("tiny-e5")), device="cpu")
    contents = tmp_path / "dense" / "contents.json"
    facts = json.loads(contents.read_text())
    facts["facts"]["encoding"]["model"] = str(tmp_path / "gone")
    contents.write_text(json.dumps(facts))
    with pytest.raises(RetrievalError, match=r"gone cannot be loaded"):
        open_retriever("dense", index=tmp_path, device="cpu")
    with pytest.raises(RetrievalError, match=r"vectors of width 32, but .* gives 16"):
        open_retriever("dense", index=tmp_path, model=models("wide", 16), device="cpu")
    open_retriever("dense", index=tmp_path, model=models("tiny-e5"), device="cpu")


def test_missing_faiss_is_said_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("trca.common.extras.find_spec", lambda name: None)
    with pytest.raises(RetrievalError, match="pip install '"):
        open_retriever("dense", index=tmp_path)


def test_unknown_poolings_are_told_the_known_ones():
    with pytest.raises(ValueError, match="choose mean, cls, pooler"):
        Encoding("x", "max")
