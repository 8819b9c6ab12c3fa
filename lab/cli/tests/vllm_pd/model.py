"""Makes a small Llama with random weights, as the folder that vLLM loads.

    model.py OUT

The weights are drawn from a seed, and wide enough that the next token depends on the whole prompt:
with vLLM's own dummy weights all prompts have the same answer, so wrong KV would not show. The
tokenizer is a byte-level BPE trained on the sources of Python's standard library. Nothing is
downloaded.
"""

import json
import os
import pathlib
import shutil
import sys

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, LAYERS, WIDTH, INNER, HEADS = 4000, 4, 256, 512, 8
EMBEDDING_SPREAD, MATRIX_SPREAD, SEED = 1.0, 0.12, 7
TEXT_ENDS, TURN_STARTS, TURN_ENDS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer():
    """A tokenizer of exactly VOCABULARY tokens."""
    sources = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))[:120]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[TEXT_ENDS, TURN_STARTS, TURN_ENDS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train([str(path) for path in sources], trainer)
    if made.get_vocab_size() != VOCABULARY:
        sys.exit(f"the tokenizer has {made.get_vocab_size()} tokens and not {VOCABULARY}")
    return made


def weights():
    """The tensors, by the names of Hugging Face's Llama."""
    random = numpy.random.default_rng(SEED)

    def matrix(rows, columns, spread=MATRIX_SPREAD):
        return (random.standard_normal((rows, columns)) * spread).astype(numpy.float32)

    norm = numpy.ones(WIDTH, numpy.float32)
    tensors = {
        "model.embed_tokens.weight": matrix(VOCABULARY, WIDTH, EMBEDDING_SPREAD),
        "model.norm.weight": norm,
        "lm_head.weight": matrix(VOCABULARY, WIDTH),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        tensors[f"{at}.input_layernorm.weight"] = norm
        tensors[f"{at}.post_attention_layernorm.weight"] = norm
        for part in ("q", "k", "v", "o"):
            tensors[f"{at}.self_attn.{part}_proj.weight"] = matrix(WIDTH, WIDTH)
        for part in ("gate", "up"):
            tensors[f"{at}.mlp.{part}_proj.weight"] = matrix(INNER, WIDTH)
        tensors[f"{at}.mlp.down_proj.weight"] = matrix(WIDTH, INNER)
    return tensors


def documents(special):
    """The JSON files beside the weights. `special` has the ids of the special tokens."""
    names = {"bos_token": TEXT_ENDS, "eos_token": TURN_ENDS, "pad_token": TEXT_ENDS}
    ids = {f"{name}_id": special[token] for name, token in names.items()}
    return {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "intermediate_size": INNER,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "head_dim": WIDTH // HEADS,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
            **ids,
        },
        "generation_config.json": ids,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 4096,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
            **names,
        },
        "special_tokens_map.json": names,
    }


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = sys.argv[1]
    # Renamed at the end, so that no engine loads half a model.
    unfinished = f"{out}.{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    made = tokenizer()
    made.save(os.path.join(unfinished, "tokenizer.json"))
    special = {token: made.token_to_id(token) for token in (TEXT_ENDS, TURN_STARTS, TURN_ENDS)}
    for name, content in documents(special).items():
        with open(os.path.join(unfinished, name), "w") as file:
            json.dump(content, file, indent=1)
    save_file(weights(), os.path.join(unfinished, "model.safetensors"), {"format": "pt"})
    os.replace(unfinished, out)


if __name__ == "__main__":
    main()
