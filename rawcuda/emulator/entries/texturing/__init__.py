"""The entry points for CUDA arrays, textures, surfaces and tensor maps."""
