"""Arrays: view() and StridedView, their copies and their exports.

What it is   strided: view() and StridedView, whose methods are also in reshaping and number; copying and host_copy:
             copies and fills; conversion, flags and pickling: what NumPy's users ask of an array; exporting and
             exchange_table: exports to other libraries.
What not     nothing here imports a driver; gpu/ is imported when device memory is first used.
Read next    strided.py
"""
