"""The table of opcodes: for each, the forms that are accepted and the writer of its source.

Order        async_opcodes, matrix_opcodes, texture_opcodes, forms, cluster_opcodes, small_opcodes, opcodes
"""
