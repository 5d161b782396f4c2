"""The entry points for CUDA arrays, textures, surfaces and tensor maps.

Order        texture_entries, array_entries, tensor_maps
"""
