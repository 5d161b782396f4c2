"""From PTX text to syntax: lexer.py, parser.py and the modules that the parser uses; syntax.py defines the result.

Order        syntax, lexer, declare, dividing, header, operands, parser, ptx_linking
"""
