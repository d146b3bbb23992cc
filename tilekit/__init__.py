"""A Warp-style kernel language for tiles."""
