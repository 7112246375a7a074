"""A PyTorch loop over the Llama and GPT-2 of transformers: models that nobody here wrote.

For `lines --loop`. It begins by giving transformers' model the weights of the workload's own: both
have to be as many, and to have the same loss on the same batch.
"""

import importlib.util
import os
import types

import torch
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

LAYERS = {
    "llama": {
        "norm1": "input_layernorm",
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "attended": "self_attn.o_proj",
        "norm2": "post_attention_layernorm",
        "gate": "mlp.gate_proj",
        "widen": "mlp.up_proj",
        "narrow": "mlp.down_proj",
    },
    "gpt2": {
        "norm1": "ln_1",
        "query_key_value": "attn.c_attn",
        "attended": "attn.c_proj",
        "norm2": "ln_2",
        "widen": "mlp.c_fc",
        "narrow": "mlp.c_proj",
    },
}
OTHERS = {
    "llama": {"words": "model.embed_tokens", "norm": "model.norm", "logits": "lm_head"},
    "gpt2": {
        "words": "transformer.wte",
        "positions": "transformer.wpe",
        "norm": "transformer.ln_f",
    },
}
BLOCKS = {"llama": "model.layers", "gpt2": "transformer.h"}
"""Workload -> our name of a module -> that of transformers."""


def llama(params):
    """The network, with rotary positions as the workload has them."""
    config = LlamaConfig(
        vocab_size=params["vocabulary"],
        hidden_size=params["hidden"],
        intermediate_size=params["inner"],
        num_hidden_layers=params["layers"],
        num_attention_heads=params["heads"],
        num_key_value_heads=params["key_value_heads"],
        max_position_embeddings=params["sequence_length"],
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": float(params["rotary_base"])},
        tie_word_embeddings=params["tied"],
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def gpt2(params):
    """The network, without dropout."""
    config = GPT2Config(
        vocab_size=params["vocabulary"],
        n_positions=params["positions"],
        n_embd=params["hidden"],
        n_layer=params["layers"],
        n_head=params["heads"],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config)


def loss(model, batch):
    """Mean cross-entropy of the tokens that follow."""
    logits = model(input_ids=batch["tokens"], use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())


def theirs(workload, name):
    """The name that transformers has for one of our parameters."""
    *module, kind = name.split(".")
    if module[0] == "layers":
        return ".".join((BLOCKS[workload], module[1], LAYERS[workload][module[2]], kind))
    return OTHERS[workload][module[0]] + "." + kind


def same(workload, own, other, batch, own_loss):
    """Copies weights from our network to the other; raises ValueError where they differ."""
    counts = [sum(each.numel() for each in model.parameters()) for model in (own, other)]
    if counts[0] != counts[1]:
        raise ValueError("{} parameters, transformers has {}".format(*counts))
    targets = dict(other.named_parameters())
    with torch.no_grad():
        for name, weight in own.named_parameters():
            # GPT-2's matrices are (in, out) there.
            turned = workload == "gpt2" and weight.ndim == 2 and name.startswith("layers.")
            targets[theirs(workload, name)].copy_(weight.T if turned else weight)
        losses = [float(own_loss(own, batch)), float(loss(other, batch))]
    if abs(losses[0] - losses[1]) > 1e-5 * losses[0]:
        raise ValueError("first loss {}, that of transformers {}".format(*losses))
    print("first losses with the same weights: {:.7f}, transformers {:.7f}".format(*losses))


def build(given):
    """PyTorch's loop, with the other network in place of ours."""
    workload, models = given.case["workload"], {"llama": llama, "gpt2": gpt2}
    batch = {name: torch.from_numpy(value) for name, value in given.batch.items()}
    network = given.network("pytorch")
    other = models[workload](given.params)
    same(workload, network.model(given.params), other, batch, network.loss)
    given.network = lambda api: types.SimpleNamespace(model=lambda _: other, loss=loss)
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location("own", os.path.join(folder, "pytorch_loop.py"))
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    return own.build(given)
