"""Arrays: view() and StridedView, their copies, and what they export.

What it is   strided: view() and StridedView; copying and host_copy: copies and fills; exporting and exchange_table: what a
             view offers to other libraries.
What not     nothing here imports a driver; device memory is reached through gpu/, which is imported when there is some.
Read next    strided.py
"""
