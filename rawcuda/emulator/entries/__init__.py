"""The cu* entry points, one module for each family. Importing a module adds its functions to the table of entry points.

hardware/ describes the machine, memories/ manages and copies memory, texturing/ has CUDA arrays, textures, surfaces and
tensor maps, code/ loads PTX, tasks/ and graphs/ submit work, and older/ has functions that newer ones have replaced.

Order        hardware, code, memories, tasks, graphs, texturing, older
"""
