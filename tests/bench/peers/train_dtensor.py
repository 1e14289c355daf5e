"""Training steps of DTensor's parallelize_module: two processes over Gloo."""

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

import dtensor
import gloo
import train_eager
import train_gloo


def prepare(rank, options):
    model, inputs = train_eager.load(options)
    plan = dtensor.MODELS[model.config.model_type](model)
    parallelize_module(model, init_device_mesh("cpu", (gloo.RANKS,)), plan)
    # A fused step takes parameters of one kind.
    split = [parameter for parameter in model.parameters() if isinstance(parameter, DTensor)]
    whole = [parameter for parameter in model.parameters() if not isinstance(parameter, DTensor)]
    return train_eager.step_of(model, [{"params": split}, {"params": whole}], inputs)


if __name__ == "__main__":
    train_gloo.run(prepare)
