// A terminal's screen from the bytes a program writes: what xterm understands, as far as shells and editors use it.
// It answers where the cursor is and what it is, in fixed words; titles, links, clipboard and pictures are passed over.

const BLANK = { text: " ", look: "" };
const SEEN = /[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800]/u;
const LINES = { j: "┘", k: "┐", l: "┌", m: "└", n: "┼", q: "─", t: "├", u: "┤", v: "┴", w: "┬", x: "│" };
const WIDE = /[\u1100-\u115e\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const LONGEST = 4096;
const MODES = { 1: "application", 7: "wrap", 25: "cursor", 2004: "paste" };
const plain = () => ({ fg: -1, bg: -1, bold: false, faint: false, under: false, inverse: false });

export class Screen {
  constructor(rows, columns, { reply = () => {}, scrolled = () => {} } = {}) {
    this.reply = reply;
    this.scrolled = scrolled;
    this.decoder = new TextDecoder();
    this.rows = rows;
    this.columns = columns;
    this.reset();
  }

  reset() {
    this.style = plain();
    this.known = null;
    this.grid = Array.from({ length: this.rows }, () => this.line());
    this.other = null;
    this.row = this.column = 0;
    this.top = 0;
    this.bottom = this.rows - 1;
    this.saved = { row: 0, column: 0, style: plain() };
    this.modes = { wrap: true, cursor: true, application: false, paste: false };
    this.drawing = false;
    this.pending = "";
    this.wrapping = false;
  }

  line() {
    return new Array(this.columns).fill(BLANK);
  }

  get look() {
    return (this.known ??= this.describe());
  }

  describe() {
    const { fg, bg, bold, faint, under, inverse } = this.style;
    const [ink, ground] = inverse ? [bg < 0 ? "i" : bg, fg < 0 ? "i" : fg] : [fg, bg];
    return [ink !== -1 && `f${ink}`, ground !== -1 && `b${ground}`, bold && "bold", faint && "faint", under && "under"]
      .filter(Boolean).join(" ");
  }

  resize(rows, columns) {
    // Lines below the cursor go first, then those at the top: of the primary screen they are scrolled away, not lost.
    const fit = (grid, cursor, primary) => {
      const shaped = grid.map((line) => Array.from({ length: columns }, (_, at) => line[at] || BLANK));
      while (shaped.length > rows && cursor.row < shaped.length - 1) {
        shaped.pop();
      }
      while (shaped.length > rows) {
        const gone = shaped.shift();
        primary && this.scrolled(gone);
        cursor.row -= 1;
      }
      while (shaped.length < rows) {
        shaped.push(new Array(columns).fill(BLANK));
      }
      return shaped;
    };
    this.grid = fit(this.grid, this, !this.other);
    this.other = this.other && fit(this.other, this.saved, true);
    Object.assign(this, { rows, columns, top: 0, bottom: rows - 1 });
    this.row = Math.max(0, Math.min(this.row, rows - 1));
    this.column = Math.min(this.column, columns - 1);
  }

  write(bytes) {
    let text = this.pending + (typeof bytes === "string" ? bytes : this.decoder.decode(bytes, { stream: true }));
    this.pending = "";
    let at = 0;
    while (at < text.length) {
      if (text[at] === "\x1b") {
        const used = this.escape(text.slice(at, at + LONGEST));
        if (!used) {
          this.pending = text.length - at < LONGEST ? text.slice(at) : "";
          return;
        }
        at += used;
      } else {
        const character = String.fromCodePoint(text.codePointAt(at));
        at += character.length;
        this.put(character);
      }
    }
  }

  put(character) {
    const code = character.codePointAt(0);
    if (code < 32 || code === 127) {
      this.control(code);
      return;
    }
    const ascii = code < 127;
    if (!ascii && /\p{M}/u.test(character)) {
      return;
    }
    const width = !ascii && WIDE.test(character) ? 2 : 1;
    if (this.wrapping || this.column + width > this.columns) {
      if (this.modes.wrap) {
        this.column = 0;
        this.feed();
      }
      this.wrapping = false;
    }
    const text = !ascii && SEEN.test(character) ? "\ufffd" : (this.drawing && LINES[character]) || character;
    const line = this.grid[this.row];
    line[this.column] = { text, look: this.look };
    if (width === 2 && this.column + 1 < this.columns) {
      line[this.column + 1] = { text: "", look: this.look };
    }
    this.column += width;
    if (this.column >= this.columns) {
      this.column = this.columns - 1;
      this.wrapping = true;
    }
  }

  control(code) {
    if (code === 13) {
      this.column = 0;
    } else if (code >= 10 && code <= 12) {
      this.feed();
    } else if (code === 8) {
      this.column = Math.max(0, this.column - 1);
    } else if (code === 9) {
      this.column = Math.min(this.columns - 1, (this.column & ~7) + 8);
    } else if (code === 14 || code === 15) {
      this.drawing = code === 14;
    }
    this.wrapping = false;
  }

  feed() {
    if (this.row === this.bottom) {
      this.scroll(1);
    } else {
      this.row = Math.min(this.rows - 1, this.row + 1);
    }
  }

  scroll(lines, from = this.top) {
    for (let n = 0; n < Math.min(Math.abs(lines), this.rows); n += 1) {
      if (lines > 0) {
        const [gone] = this.grid.splice(from, 1);
        if (from === 0 && !this.other) {
          this.scrolled(gone);
        }
        this.grid.splice(this.bottom, 0, this.line());
      } else {
        this.grid.splice(this.bottom, 1);
        this.grid.splice(from, 0, this.line());
      }
    }
  }

  // Takes what begins with ESC; gives how much of it was one, 0 when its end is not there yet.
  escape(text) {
    if (text.length < 2) {
      return 0;
    }
    if (text[1] === "[") {
      const found = /^\x1b\[([<-?]?)([0-9;:]*)([ -/]*)([@-~])/.exec(text);
      if (found) {
        this.sequence(found[1], found[2].split(/[;:]/).map((each) => Math.min(9999, Number(each) || 0)), found[3] + found[4], found[2]);
        return found[0].length;
      }
      return /^\x1b\[[ -?]*$/.test(text) && text.length < 64 ? 0 : 2;
    }
    if ("]P_^X".includes(text[1])) {
      const end = /\x07|\x1b\\/.exec(text.slice(2));
      return end ? 2 + end.index + end[0].length : text.length >= LONGEST ? 2 : 0;
    }
    if ("()*+#% ".includes(text[1])) {
      if (text.length > 2 && text[1] === "(") {
        this.drawing = text[2] === "0";
      }
      return text.length < 3 ? 0 : 3;
    }
    this.short(text[1]);
    return 2;
  }

  short(letter) {
    if (letter === "7") {
      this.saved = { row: this.row, column: this.column, style: { ...this.style } };
    } else if (letter === "8") {
      this.restore();
    } else if (letter === "D" || letter === "E") {
      this.column = letter === "E" ? 0 : this.column;
      this.feed();
    } else if (letter === "M") {
      this.row === this.top ? this.scroll(-1) : (this.row = Math.max(0, this.row - 1));
    } else if (letter === "c") {
      this.reset();
    }
    this.wrapping = false;
  }

  restore() {
    this.move(this.saved.row, this.saved.column);
    this.style = { ...this.saved.style };
    this.known = null;
  }

  move(row, column) {
    this.row = Math.max(0, Math.min(this.rows - 1, row));
    this.column = Math.max(0, Math.min(this.columns - 1, column));
    this.wrapping = false;
  }

  sequence(mark, numbers, act, raw) {
    const one = numbers[0] || 1;
    const { row, column } = this;
    if (mark === "?" && (act === "h" || act === "l")) {
      numbers.forEach((each) => this.mode(each, act === "h"));
      return;
    }
    if (mark) {
      return;
    }
    switch (act) {
      case "A": return this.move(row - one, column);
      case "B": case "e": return this.move(row + one, column);
      case "C": case "a": return this.move(row, column + one);
      case "D": return this.move(row, column - one);
      case "E": return this.move(row + one, 0);
      case "F": return this.move(row - one, 0);
      case "G": case "`": return this.move(row, one - 1);
      case "d": return this.move(one - 1, column);
      case "H": case "f": return this.move(one - 1, (numbers[1] || 1) - 1);
      case "J": return this.erase(numbers[0]);
      case "K": return this.eraseLine(numbers[0]);
      case "L": return this.inside() && this.scroll(-one, row);
      case "M": return this.inside() && this.scroll(one, row);
      case "P": return this.shift(one);
      case "@": return this.shift(-one);
      case "X": return this.blank(row, column, column + one);
      case "S": return this.scroll(one);
      case "T": return this.scroll(-one);
      case "m": return this.paint(raw === "" ? [0] : numbers);
      case "n": return one === 6 ? this.reply(`\x1b[${row + 1};${column + 1}R`) : one === 5 && this.reply("\x1b[0n");
      case "c": return this.reply("\x1b[?6c");
      case "r": return this.region(one - 1, (numbers[1] || this.rows) - 1);
      case "s": return this.short("7");
      case "u": return this.restore();
      default: return null;
    }
  }

  inside() {
    return this.row >= this.top && this.row <= this.bottom;
  }

  region(top, bottom) {
    if (top < bottom && bottom < this.rows) {
      Object.assign(this, { top, bottom });
      this.move(0, 0);
    }
  }

  mode(number, on) {
    if (MODES[number]) {
      this.modes[MODES[number]] = on;
    } else if ([47, 1047, 1049].includes(number)) {
      this.alternate(on);
    }
  }

  alternate(on) {
    if (on && !this.other) {
      this.short("7");
      this.other = this.grid;
      this.grid = Array.from({ length: this.rows }, () => this.line());
    } else if (!on && this.other) {
      this.grid = this.other;
      this.other = null;
      this.restore();
    }
    Object.assign(this, { top: 0, bottom: this.rows - 1 });
  }

  blank(row, from, to) {
    const look = this.style.bg >= 0 ? `b${this.style.bg}` : "";
    for (let at = from; at < Math.min(to, this.columns); at += 1) {
      this.grid[row][at] = look ? { text: " ", look } : BLANK;
    }
  }

  erase(how) {
    const [from, to] = how === 0 ? [this.row + 1, this.rows] : how === 1 ? [0, this.row] : [0, this.rows];
    for (let row = from; row < to; row += 1) {
      this.blank(row, 0, this.columns);
    }
    if (how < 2) {
      this.eraseLine(how);
    }
  }

  eraseLine(how) {
    this.blank(this.row, how === 0 ? this.column : 0, how === 1 ? this.column + 1 : this.columns);
  }

  shift(count) {
    const line = this.grid[this.row];
    const blanks = Array.from({ length: Math.min(Math.abs(count), this.columns - this.column) }, () => BLANK);
    if (count > 0) {
      line.splice(this.column, blanks.length);
      line.push(...blanks);
    } else {
      line.splice(this.column, 0, ...blanks);
      line.length = this.columns;
    }
  }

  paint(numbers) {
    const s = this.style;
    this.known = null;
    for (let at = 0; at < numbers.length; at += 1) {
      const n = numbers[at];
      if (n === 0) {
        Object.assign(s, plain());
      } else if (n === 1 || n === 22) {
        s.bold = n === 1;
        s.faint = false;
      } else if (n === 2) {
        s.faint = true;
      } else if (n === 4 || n === 24) {
        s.under = n === 4;
      } else if (n === 7 || n === 27) {
        s.inverse = n === 7;
      } else if (n === 38 || n === 48) {
        const rgb = numbers[at + 1] === 2;
        const colour = rgb ? near(numbers.slice(at + 2, at + 5)) : indexed(numbers[at + 2] || 0);
        s[n === 38 ? "fg" : "bg"] = colour;
        at += rgb ? 4 : 2;
      } else if (n === 39 || n === 49) {
        s[n === 39 ? "fg" : "bg"] = -1;
      } else if (n >= 30 && n <= 47) {
        s[n < 38 ? "fg" : "bg"] = n % 10;
      } else if (n >= 90 && n <= 107) {
        s[n < 98 ? "fg" : "bg"] = 8 + (n % 10);
      }
    }
  }
}

const indexed = (n) => n < 16 ? n : n > 231 ? (n < 238 ? 8 : n < 247 ? 7 : 15)
  : near([Math.floor((n - 16) / 36), Math.floor((n - 16) / 6) % 6, (n - 16) % 6].map((each) => each * 51));

function near([r = 0, g = 0, b = 0]) {
  const most = Math.max(r, g, b);
  if (most < 48) {
    return 0;
  }
  const bits = [r, g, b].reduce((sum, each, at) => sum | (each > most * 0.6 ? 1 << at : 0), 0);
  return most > 200 && bits !== 7 ? 8 + bits : bits === 7 ? (most > 200 ? 15 : 7) : bits;
}
