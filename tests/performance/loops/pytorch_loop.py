"""A PyTorch loop, as the framework's examples write it."""

import contextlib

import torch

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def optimizer_of(weights, params):
    """The workload's, by PyTorch's own."""
    rate, decay = params["learning_rate"], params["weight_decay"]
    if params["optimizer"] == "momentum":
        momentum = params["momentum"]
        return torch.optim.SGD(weights, lr=rate, momentum=momentum, weight_decay=decay)
    betas, epsilon = (params["beta1"], params["beta2"]), params["epsilon"]
    return torch.optim.AdamW(
        weights, lr=rate, betas=betas, eps=epsilon, weight_decay=decay, fused=True
    )


def build(given):
    """One step, and a wait for the device."""
    given.only(
        optimizer=["momentum", "adamw"],
        precision=["fp32", "tf32", "bf16", "fp16"],
        compiler=["none", "inductor"],
        layout=["default", "channels_last"],
    )
    case, device = given.case, torch.device("cuda" if given.gpu else "cpu")
    torch.backends.cudnn.benchmark = True
    tf32 = case["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    network = given.network("pytorch")
    layouts = dict.fromkeys(given.batch, torch.preserve_format)
    layout = torch.preserve_format
    if case["layout"] == "channels_last":
        layout = torch.channels_last
        layouts.update({name: layout for name, value in given.batch.items() if value.ndim == 4})
    batch = {
        name: torch.from_numpy(value).to(device, memory_format=layouts[name])
        for name, value in given.batch.items()
    }
    model = network.model(given.params)
    for weight in model.parameters():
        if weight.ndim == 3:  # Matrices of experts, which PyTorch does not initialise itself.
            torch.nn.init.normal_(weight, std=0.02)
    model.to(device, memory_format=layout)
    optimizer = optimizer_of(model.parameters(), given.params)
    scaler = torch.amp.GradScaler(device.type) if case["precision"] == "fp16" else None
    loss_of, autocast = network.loss, contextlib.nullcontext
    if case["compiler"] == "inductor":
        loss_of = torch.compile(loss_of)
    if case["precision"] in TYPES:

        def autocast():
            return torch.autocast(device.type, TYPES[case["precision"]])

    last = [None]

    def step():
        optimizer.zero_grad()
        with autocast():
            loss = loss_of(model, batch)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        last[0] = loss

    return step, lambda: last[0].item()
