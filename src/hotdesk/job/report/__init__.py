"""`report.html`: one job in one file that a manager can read.

How it works: `story.py` tells what happened from a job's events, those of its desks and its papers (the API's timeline
is made of it, too); `collect.py` adds what else there is, into `facts.py`; each section is a module that turns facts
into elements; `markup.py` makes elements and escapes every text in them; `pictures.py` scales pictures down that were
encoded here; `page.py` puts it together; `write.py` writes it where results go.
There is no script in it, and nothing in it is fetched from anywhere.
"""

from hotdesk.job.report.write import make as make
from hotdesk.job.report.write import name_beside as name_beside
from hotdesk.job.report.write import write as write
