"""From PTX text to syntax: lexer.py, parser.py and the readers that the parser calls; syntax.py defines the result."""
