"""Arrays: view() and StridedView, their copies and their exports.

What it is   strided: view() and StridedView, whose methods are also in reshaping and number; copying, host_copy and
             making: copies, fills and new arrays; conversion, flags and pickling: what NumPy's users expect of an
             array; exporting, arrow_export and exchange_table: exports to other libraries.
What not     nothing here imports a driver; gpu/ is imported when device memory is first used.
Order        host_copy, copying, conversion, flags, exporting, arrow_export, exchange_table, pickling, number,
             reshaping, strided, making
Read next    strided.py
"""
