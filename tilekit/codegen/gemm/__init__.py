"""Matrix products on GPUs: which code serves a product, and how it lies over warps and memory."""
