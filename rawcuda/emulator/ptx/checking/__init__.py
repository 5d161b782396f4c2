"""The checks of a kernel that cost more than an access itself, and the source lines of what they find.

What it is   history.py finds races, and access_order.py decides which accesses are ordered; delays.py lets stores of a
             block arrive late. The code that translating/ writes calls them, if the settings turn them on. sources.py
             finds the source line of a PTX line; places.py describes the place of a wrong access.
Order        delays, access_order, places, history, sources
Read next    history.py
"""
