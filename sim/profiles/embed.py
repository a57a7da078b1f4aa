"""Writes a file's bytes as the inside of a C array: embed.py INPUT OUTPUT."""
import sys

data = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "w") as out:
    for i in range(0, len(data), 16):
        out.write(", ".join(str(b) for b in data[i : i + 16]) + ",\n")
