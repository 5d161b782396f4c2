"""The entry points that load programs: modules, libraries and the linker.

Order        image_entries, modules, code_libraries, linking_entries
"""
