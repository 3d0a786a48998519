"""JAX calls `initialize` of each module of this namespace before it looks for devices. It looks for NVIDIA's by the files of their
kernel module, which a machine without a GPU does not have."""


def initialize():
    from jax._src import hardware_utils

    hardware_utils.has_visible_nvidia_gpu = lambda: True
