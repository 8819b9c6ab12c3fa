"""Makes a tiny llama model with random weights as one GGUF file.

    model.py OUT.gguf [--vocab 4096] [--layers 4] [--width 192] [--seed 0]

The answers are noise and are not read: the tests look at the server around the model (slots,
prefix cache, counters, streams). So the weights are drawn from a seeded normal
distribution and the tokenizer is a byte-level BPE trained on the sources of Python's own standard
library, which every machine that runs this file has. Nothing is downloaded.

The default size is a compromise: large enough that reading a prompt of a thousand tokens takes a
visible part of a second on one core, so a cached prefix shows in the TTFT, and small enough that
four servers, a gateway and a client share two cores.
"""

import argparse
import json
import os
import pathlib

import gguf
import numpy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT, TURN_STARTS, TURN_ENDS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
HEAD_WIDTH = 32
LONGEST_CONTEXT = 32768
CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(vocab_size):
    """Trains a byte-level BPE on the standard library; returns (tokens in order of id, merges)."""
    library = pathlib.Path(os.__file__).parent
    sources = sorted(str(path) for path in library.glob("*.py"))[:120]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT, TURN_STARTS, TURN_ENDS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train(sources, trainer)
    bpe = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    # The library has written a merge as "a b" and as ["a", "b"]; GGUF wants the first form.
    merges = [m if isinstance(m, str) else " ".join(m) for m in bpe["merges"]]
    return tokens, merges


def write_header(writer, args):
    """The shape of the network, under the keys that llama.cpp reads."""
    heads = args.width // HEAD_WIDTH
    writer.add_name("meridian-tiny")
    writer.add_context_length(LONGEST_CONTEXT)
    writer.add_embedding_length(args.width)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(2 * args.width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_rope_freq_base(10000.0)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def write_tokenizer(writer, tokens, merges):
    """The vocabulary, the merges and the chat template."""
    special = {END_OF_TEXT, TURN_STARTS, TURN_ENDS}
    kinds = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(END_OF_TEXT))
    writer.add_eos_token_id(tokens.index(TURN_ENDS))
    writer.add_pad_token_id(tokens.index(END_OF_TEXT))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def write_weights(writer, args, vocab_size):
    """Random matrices, and norms of one; names as llama.cpp's llama architecture has them."""
    random = numpy.random.default_rng(args.seed)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns)) * 0.05
        writer.add_tensor(name, values.astype(numpy.float32))

    def norm(name):
        writer.add_tensor(name, numpy.ones(args.width, numpy.float32))

    width, inner = args.width, 2 * args.width
    matrix("token_embd.weight", vocab_size, width)
    norm("output_norm.weight")
    matrix("output.weight", vocab_size, width)
    for layer in range(args.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        norm(block + "ffn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"{block}{part}.weight", width, width)
        matrix(block + "ffn_gate.weight", inner, width)
        matrix(block + "ffn_up.weight", inner, width)
        matrix(block + "ffn_down.weight", width, inner)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.width % HEAD_WIDTH:
        parser.error(f"--width {args.width} is not a multiple of the head width, {HEAD_WIDTH}")

    tokens, merges = train_tokenizer(args.vocab)
    # Written beside the target and renamed, so that a reader never meets half a file.
    unfinished = f"{args.out}.{os.getpid()}"
    writer = gguf.GGUFWriter(unfinished, "llama")
    write_header(writer, args)
    write_tokenizer(writer, tokens, merges)
    write_weights(writer, args, len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(unfinished, args.out)


if __name__ == "__main__":
    main()
