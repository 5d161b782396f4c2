"""Tests in CPython for WebAssembly: python3 -m tests --pyodide."""
