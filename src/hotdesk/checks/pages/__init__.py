"""The checks of files with pages: PDF, documents and slides.

The desk reports the content of each page and sends each page as pixels; both are judged here, and each is checked
without trusting the other. `check.py` is common to the checks in `pdf.py`, `docx.py` and `pptx.py`. `expect.py` reads a
brief's options, `document.py` the desk's report; `layout.py`, `reading.py` and `parts.py` have the rules, and
`pixels.py` analyses the pixels.
"""
