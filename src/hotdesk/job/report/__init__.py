"""`report.html`: one job in one file for readers who did not follow it.

`story.py` builds the timeline from a job's events, those of its desks and its papers; the API's timeline uses it too.
`collect.py` adds the other facts, which `facts.py` defines. Each section is a module that turns facts into elements.
`markup.py` makes elements and escapes every text in them, `pictures.py` scales down pictures that were encoded on the
host, `page.py` assembles the page, and `write.py` writes it next to the results.

The page has no script and loads nothing.
"""

from hotdesk.job.report.write import make as make
from hotdesk.job.report.write import name_beside as name_beside
from hotdesk.job.report.write import write as write
