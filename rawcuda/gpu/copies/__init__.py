"""Copies and fills that involve a device.

What it is   transfer: copies by address; device_copy: copies between views; strided_kernel: layouts that the driver's
             own copies do not support.
Order        contiguous, transfer, strided_kernel, peer_copy, device_copy, batch
Read next    transfer.py
"""
