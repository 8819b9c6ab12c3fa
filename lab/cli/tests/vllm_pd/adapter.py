"""Makes a LoRA adapter with random weights, as the folder that PEFT writes and vLLM loads.

    adapter.py MODEL OUT SEED

It fits the model in the folder MODEL. Both of its matrices are drawn from the seed: with PEFT's own
initial B of zeros an adapter answers as the model does, so a request that lost it would not show.
"""

import json
import os
import sys

import numpy
from safetensors.numpy import save_file

RANK, SPREAD, PARTS = 8, 0.12, ("q", "v")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model, out, seed = sys.argv[1:]
    with open(os.path.join(model, "config.json")) as file:
        config = json.load(file)
    width = config["hidden_size"]
    random = numpy.random.default_rng(int(seed))

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) * SPREAD).astype(numpy.float32)

    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for part in PARTS:
            at = f"base_model.model.model.layers.{layer}.self_attn.{part}_proj"
            tensors[f"{at}.lora_A.weight"] = matrix(RANK, width)
            tensors[f"{at}.lora_B.weight"] = matrix(width, RANK)
    os.makedirs(out)
    save_file(tensors, os.path.join(out, "adapter_model.safetensors"), {"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model,
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [f"{part}_proj" for part in PARTS],
        "inference_mode": True,
    }
    with open(os.path.join(out, "adapter_config.json"), "w") as file:
        json.dump(settings, file, indent=1)


if __name__ == "__main__":
    main()
