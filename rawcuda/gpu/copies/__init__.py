"""Copies and fills in which a device takes part.

What it is   transfer: copies by address; device_copy: copies between views; strided_kernel: layouts that no copy of the
             driver knows.
Read next    transfer.py
"""
