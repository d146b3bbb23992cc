"""cuBLASDx of NVIDIA's MathDx: units of device code, each of which computes one product, for kernels to be linked with.

MathDx is proprietary and only used where the user has installed it (the extra ``mathdx``).
"""
