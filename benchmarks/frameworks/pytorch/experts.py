"""Experts split over devices, as in GShard (Lepikhin et al. 2020, arXiv:2006.16668).

Each device has some experts of every layer. It computes the tokens that all devices send to these
experts, and sends the results back. All other weights are replicated, or sharded by stage 2 or 3.
If `shard` exceeds the number of devices with different experts, experts are sharded, too.
"""

from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.nn.parallel import DistributedDataParallel


class Experts:
    """This device's part of all experts, and its exchange with other devices.

    Args:
        model: the model with its initial weights; its layers compute `swiglu` of rows by expert.
        context: see `rank.Context`; its workload's `experts` names the modules whose weights have
            experts in their first dimension.
        device: the device of this rank.
    """

    def __init__(self, model, context, device):
        if device.type == "cuda":
            torch.cuda.init()  # Otherwise the mesh uses LOCAL_RANK, as in sharding.py.
        self.ranks, self.world_size = context.devices_of_experts, context.world_size
        shards = max(1, context.case.get("shard", 1) // self.ranks)
        shape = (self.world_size // (shards * self.ranks), shards, self.ranks)
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=("copies", "shards", "experts"))
        self.group, self.copies = mesh["experts"].get_group(), mesh["copies"].get_group()
        self.device, self.modules, self.placed = device, {}, None
        if shards > 1:
            from torch.distributed.fsdp._fully_shard._fsdp_common import ShardPlacementResult
            from torch.distributed.fsdp._fully_shard._fsdp_init import _get_mesh_info

            same = mesh["shards"] if shape[0] == 1 else mesh["copies", "shards"]
            # Split by the second dimension: the first may have size 1.
            self.placed = ShardPlacementResult(Shard(1), _get_mesh_info(same))
        for path, module in model.named_modules():
            if path.rpartition(".")[2] in context.experts:
                own = module.weight.detach().chunk(self.ranks)[mesh["experts"].get_local_rank()]
                module.weight = nn.Parameter(own.clone().to(device))
                self.modules[path + ".weight"] = module
            if hasattr(module, "swiglu"):
                module.swiglu = partial(self.swiglu, module.swiglu)
        # A device's own experts are not broadcast; their gradients are averaged here.
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, self.modules)

    def weights(self):
        """Return this device's expert weights, in the same order on all devices."""
        return [module.weight for module in self.modules.values()]

    def swiglu(self, own, rows, counts):
        """Compute rows, sorted by expert with `counts`, on the devices of the experts."""
        sent = counts.unflatten(0, (self.ranks, -1))
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent.contiguous(), group=self.group)
        sizes = got.sum(1).tolist(), sent.sum(1).tolist()
        arrived = all_to_all_single_autograd(rows, *sizes, self.group)
        # Ordered by device, then by expert.
        experts = torch.arange(got.shape[1], device=rows.device).repeat(self.ranks)
        order = experts.repeat_interleave(got.flatten()).argsort(stable=True)
        done = own(arrived[order], got.sum(0))[order.argsort()]
        return all_to_all_single_autograd(done, *reversed(sizes), self.group)

    def parts(self, experts):
        """Return the smallest number of devices by which a layer's `experts` are split."""
        return min(experts // len(weight) for weight in self.weights())

    def average(self):
        """Average this device's expert gradients over all devices, as for a mean loss."""
        for weight in self.weights():
            if self.placed:  # FSDP has averaged them between devices with the same experts.
                weight.grad /= self.ranks
                continue
            dist.all_reduce(weight.grad, group=self.copies)
            weight.grad /= self.world_size

    def joined(self, named):
        """Return name -> value, with the weights of all experts."""
        for name in self.modules:
            own = torch.from_numpy(named[name]).to(self.device)
            parts = [torch.empty_like(own) for _ in range(self.ranks)]
            dist.all_gather(parts, own, group=self.group)
            named[name] = torch.cat(parts).cpu().numpy()
        return named
