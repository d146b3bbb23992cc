"""CUDA: NVRTC and the cache of its cubins, devices, streams, launches, and what running kernels report."""
