"""Is it a file whose pages work: PDF, documents and slides.

The desk says what stands where, and sends every page as pixels; both are judged here. What the pixels say is not
believed of the file, and the other way round. `check.py` is what the checks `pdf.py`, `docx.py` and `pptx.py` share.
`expect.py` reads what a brief expects, `document.py` what the desk reported; `layout.py`, `reading.py` and `parts.py`
hold the rules, and `pixels.py` knows what was drawn.
"""
