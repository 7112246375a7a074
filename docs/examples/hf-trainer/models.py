"""Makes what the suite hf-trainer reads: models with random weights, texts of random words.

    python models.py [tiny] [llama3.2-1b]

Here, in folders of these names; both where none is named. Each text has as many words as a sequence
has tokens, so that no padding is counted.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

COMMON = {"pad_token_id": 1, "eos_token_id": 0, "bos_token_id": 0}
TINY = {
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
LLAMA_1B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
}
SIZES = {"tiny": (TINY, 128), "llama3.2-1b": (LLAMA_1B, 1024)}

for name in sys.argv[1:] or SIZES:
    size, length = SIZES[name]
    folder = Path(name)
    (folder / "texts").mkdir(parents=True, exist_ok=True)
    words = [f"w{number}" for number in range(size["vocab_size"] - 2)]
    numbers = {word: number for number, word in enumerate(["<eos>", "<pad>", *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>"
    ).save_pretrained(folder)
    LlamaForCausalLM(LlamaConfig(**size, **COMMON)).save_pretrained(folder)
    random.seed(1)
    with (folder / "texts" / "train.jsonl").open("w") as file:
        for _ in range(2000):
            print(json.dumps({"text": " ".join(random.choices(words, k=length))}), file=file)

stage_3 = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}
batches = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
Path("zero3.json").write_text(json.dumps({**stage_3, **dict.fromkeys(batches, "auto")}))
