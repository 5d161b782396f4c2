"""The writers of Python source, one for each family of instructions.

Order        emit, emit_textures, checks, access, data, convert, control, emit_matrices, emit_clusters, asynchronous,
             emit_small
"""
