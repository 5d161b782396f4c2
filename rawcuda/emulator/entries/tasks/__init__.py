"""The entry points that submit work and order it: streams, events, values in memory and launches."""
