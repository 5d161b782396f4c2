"""The entry points that load programs: modules, libraries and the linker."""
