"""Plotly figures and HTML pages.

May import everything below it in the data flow; it draws what it is given and reads no files.
"""
