"""The name of a device as measurements on it are kept: devices of different speed have different names."""

import torch


def device_name(device: torch.device) -> str:
    """The name of a GPU, or 'cpu' with the number of threads that torch uses."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"cpu {torch.get_num_threads()} threads" if device.type == "cpu" else device.type
