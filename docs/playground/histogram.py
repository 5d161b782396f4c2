import array
import pathlib

import rawcuda

rawcuda.use("emulator")
device = rawcuda.Device(0)
kernel = device.load(pathlib.Path("kernel.ptx"))["histogram"]

text = b"the quick brown fox jumps over the lazy dog, and the dog sleeps on"
letters = device.upload(text)
counts = device.upload(array.array("i", [0] * 26))
try:
    kernel.launch(letters, len(text), counts, grid=3, block=32)
    result = counts.tolist()
except rawcuda.ContextLost:
    device.reset(force=True)
    raise

alphabet = "abcdefghijklmnopqrstuvwxyz"
for letter, count in zip(alphabet, result):
    print(letter, "#" * count)
print("as in Python:", result == [text.decode().count(letter) for letter in alphabet])
