"""Tools for people: commands, explanations, pictures, traces.

What it is   commands/: the command line; checking/: the commands that test and measure a driver; explaining/: what an
             object offers by each protocol; pictures/: drawings of layouts, traces and graphs; traces.py: trace();
             trace_forms.py: the forms in which a trace is written; progress.py, magic.py: progress() and the magic
             %%cuda; manual.py, terminal.py: the manual page, and what a terminal can show.
What not     no other folder imports these; the public names do, on first use.
Order        terminal, trace_effects, progress, steps, pictures, magic, trace_forms, traces, explaining, commands,
             manual, checking
Read next    traces.py, commands/console.py
"""
