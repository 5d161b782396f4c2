"""Copies and fills that involve a device.

What it is   transfer: copies by address; device_copy: copies between views; strided_kernel: layouts that the driver's
             own copies do not support.
Read next    transfer.py
"""
