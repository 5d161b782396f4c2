"""The emulated machine: its memory, its queues of work, its threads, and the status codes that they answer.

What it is   codes: the status codes; answers: other answers of real drivers, as data; reports: the texts of errors;
             space: every allocation; recovery: consistency after an interrupt; queues: streams of work; machine:
             devices, contexts and handles; host_access, host_thread, native_threads, holdings, failures and
             device_arrays: parts of the machine; tensor_map_layout: the bytes of tensor maps.
Order        tensor_map_layout, reports, codes, space, answers, recovery, device_arrays, failures, host_access,
             host_thread, native_threads, queues, sharing, holdings, machine
Read next    machine.py, space.py
"""
