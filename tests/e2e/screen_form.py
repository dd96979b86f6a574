"""A form to be driven by pixels, which runs in a desk: it records what is entered, and every event on its pad."""

from __future__ import annotations

import json
import tkinter
from collections.abc import Callable
from pathlib import Path
from typing import Any

root = tkinter.Tk()
root.title("Form for a test")
root.geometry("900x600+80+60")
name = tkinter.Entry(root, bg="#ff0101", font="Courier 14")
name.place(x=20, y=20, width=400, height=40)
note = tkinter.Text(root, bg="#01ff01", font="Courier 14")
note.place(x=20, y=80, width=400, height=300)
agreed = tkinter.IntVar()
box = tkinter.Checkbutton(root, bg="#ff01ff", activebackground="#ff01ff", variable=agreed, text="agreed")
box.place(x=20, y=400, width=200, height=40)
pad = tkinter.Canvas(root, bg="#0101ff", takefocus=1, highlightthickness=0)
pad.place(x=460, y=20, width=420, height=420)


def submit() -> None:
    told = {"name": name.get(), "note": note.get("1.0", "end-1c"), "agreed": bool(agreed.get())}
    Path("form.new").write_text(json.dumps(told), encoding="utf-8")
    Path("form.new").rename("form.json")
    for field in (name, note):
        field.delete("0" if field is name else "1.0", "end")


def noted(kind: str) -> Callable[[Any], None]:
    def note_event(event: Any) -> None:
        what = event.keysym if kind.startswith("Key") else event.num if "Button" in kind or "Double" in kind else 0
        with Path("pad.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps([kind, what, event.x_root, event.y_root, event.state & 0x1FFD]) + "\n")
        if kind == "KeyPress" and event.char == "c":
            pad.configure(bg="#ff8001")
        if kind == "ButtonPress":
            pad.focus_set()

    return note_event


button = tkinter.Button(root, bg="#ffff01", activebackground="#ffff01", text="Submit", command=submit)
button.place(x=20, y=460, width=200, height=60)
for kind in ("ButtonPress", "ButtonRelease", "Motion", "Double-Button-1", "Triple-Button-1", "KeyPress", "KeyRelease"):
    pad.bind(f"<{kind}>", noted(kind), add=True)
root.mainloop()
