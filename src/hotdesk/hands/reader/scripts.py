"""JavaScript that runs inside a page: small functions, each with an element as `this`, or in an isolated world."""

from __future__ import annotations

ELEMENT = "const el = this.nodeType === 1 ? this : this.parentElement;"

POINT = """function() {
  ELEMENT
  if (!el || !el.isConnected) return {gone: true};
  const view = el.ownerDocument.defaultView;
  const boxes = () => [...el.getClientRects()].filter(r => r.width > 0 && r.height > 0);
  const inside = r => r.top >= 0 && r.left >= 0 && r.bottom <= view.innerHeight && r.right <= view.innerWidth;
  const name = n => {
    const text = (n.getAttribute('aria-label') || n.textContent || '').trim().replace(/\\s+/g, ' ').slice(0, 40);
    return n.tagName.toLowerCase() + (n.id ? '#' + n.id : '') + (text ? ' "' + text + '"' : '');
  };
  const deep = (root, x, y) => {
    let n = root.elementFromPoint(x, y);
    while (n && n.shadowRoot) {
      const m = n.shadowRoot.elementFromPoint(x, y);
      if (!m || m === n) break;
      n = m;
    }
    return n;
  };
  const within = (n, outer) => {
    for (; n; n = n.parentNode || n.host) if (n === outer) return true;
    return false;
  };
  const mine = n => {
    if (!n) return false;
    const label = n.closest('label');
    return within(n, el) || (label && label.control === el) || (el.tagName === 'LABEL' && el.control === n)
      || (view.getComputedStyle(el).pointerEvents === 'none' && within(el, n));
  };
  const above = (x, y) => {
    const n = deep(el.ownerDocument, x, y);
    if (!mine(n)) return {x, y, by: n ? name(n) : 'nothing that can be hit'};
    for (let w = view; w !== w.parent; w = w.parent) {
      const frame = w.frameElement;
      if (!frame) return {x, y, by: 'the border of a page of another origin'};
      const box = frame.getBoundingClientRect();
      x += box.left + frame.clientLeft;
      y += box.top + frame.clientTop;
      const m = deep(frame.ownerDocument, x, y);
      if (m !== frame) return {x, y, by: m ? name(m) : 'nothing that can be hit'};
    }
    return {x, y, by: ''};
  };
  if (!boxes().length) return {hidden: true};
  if (!boxes().every(inside)) el.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  const box = boxes().sort((a, b) => b.width * b.height - a.width * a.height)[0];
  if (!box) return {hidden: true};
  const left = Math.max(box.left, 0), right = Math.min(box.right, view.innerWidth);
  const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, view.innerHeight);
  const at = (h, v) => above(left + (right - left) * h, top + (bottom - top) * v);
  const first = at(0.5, 0.5);
  if (!first.by) return first;
  for (const [h, v] of [[0.15, 0.5], [0.85, 0.5], [0.5, 0.15], [0.5, 0.85], [0.1, 0.1], [0.9, 0.9]]) {
    const found = at(h, v);
    if (!found.by) return {...found, aside: true, covered: first.by};
  }
  return {...first, covered: first.by};
}""".replace("ELEMENT", ELEMENT)
"""Scrolls an element into view; returns a point where it can be clicked, and what covers it if there is none."""

FOCUS = """function() {
  ELEMENT
  el.focus();
  const root = el.getRootNode();
  const kind = el.tagName === 'INPUT' && ['checkbox', 'radio'].includes(el.type) ? 'Space' : 'Enter';
  return {focused: root.activeElement === el, key: el.tagName === 'SUMMARY' ? 'Space' : kind};
}""".replace("ELEMENT", ELEMENT)

FIELD = """function() {
  ELEMENT
  if (!el || !el.isConnected) return {gone: true};
  const type = (el.type || '').toLowerCase();
  const common = {value: '', checked: false, disabled: !!el.disabled, fixed: !!el.readOnly};
  const tell = kind => ({...common, kind});
  if (el.tagName === 'SELECT') return {...tell('select'), value: [...el.selectedOptions].map(o => o.label).join(', ')};
  if (el.tagName === 'TEXTAREA') return {...tell('text'), value: el.value};
  if (el.tagName !== 'INPUT') {
    return el.isContentEditable ? {...tell('text'), value: el.innerText, editable: true} : tell('other');
  }
  if (type === 'checkbox' || type === 'radio') return {...tell('check'), checked: el.checked};
  if (type === 'file') return {...tell('file'), value: [...el.files].map(f => f.name).join(', ')};
  if (['button', 'submit', 'reset', 'image', 'hidden'].includes(type)) return tell('other');
  const set = ['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(type);
  return {...tell(set ? 'set' : 'text'), value: el.value};
}""".replace("ELEMENT", ELEMENT)
"""Returns what kind of field an element is, and its value."""

SELECT_ALL = """function() {
  ELEMENT
  el.focus();
  if (el.select) {
    el.select();
  } else {
    const selection = el.ownerDocument.defaultView.getSelection();
    selection.selectAllChildren(el);
  }
  return {focused: el.getRootNode().activeElement === el};
}""".replace("ELEMENT", ELEMENT)

SET = """function(text) {
  ELEMENT
  el.focus();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(el, text);
  for (const name of ['input', 'change']) el.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
  return {value: el.value};
}""".replace("ELEMENT", ELEMENT)
"""Sets a value that cannot be typed reliably: the format of a typed date depends on the browser's language."""

CHOOSE = """function(values) {
  ELEMENT
  if (el.tagName !== 'SELECT') return {other: true};
  const options = [...el.options];
  const found = values.map(w => options.find(o => o.value === w) || options.find(o => o.label.trim() === w.trim()));
  const known = options.slice(0, 50).map(o => o.label.slice(0, 100));
  const missing = values.filter((w, i) => !found[i] || found[i].disabled);
  if (missing.length || (values.length > 1 && !el.multiple)) return {missing, known, single: !el.multiple};
  el.focus();
  for (const o of options) o.selected = found.includes(o);
  for (const name of ['input', 'change']) el.dispatchEvent(new Event(name, {bubbles: true, composed: true}));
  return {chosen: [...el.selectedOptions].slice(0, 50).map(o => o.label.slice(0, 100))};
}""".replace("ELEMENT", ELEMENT)

BOX = """function() {
  ELEMENT
  if (!el || !el.isConnected) return {gone: true};
  el.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  const box = el.getBoundingClientRect();
  const view = el.ownerDocument.defaultView;
  if (view !== view.parent) return {framed: true};
  return {x: box.left + view.scrollX, y: box.top + view.scrollY, width: box.width, height: box.height};
}""".replace("ELEMENT", ELEMENT)

SCROLL = """function(down, right) {
  const page = document.scrollingElement || document.documentElement;
  const can = n => n.scrollHeight > n.clientHeight + 1 || n.scrollWidth > n.clientWidth + 1;
  let box = page;
  if (!can(page)) {
    const free = n => /auto|scroll/.test(getComputedStyle(n).overflowY + getComputedStyle(n).overflowX);
    const area = n => n.clientWidth * n.clientHeight;
    const all = [...document.querySelectorAll('*')].slice(0, 20000).filter(n => can(n) && free(n));
    box = all.sort((a, b) => area(b) - area(a))[0] || page;
  }
  box.scrollBy({top: down * box.clientHeight, left: right * box.clientWidth, behavior: 'instant'});
  return {y: box.scrollTop, height: box.clientHeight, all: box.scrollHeight};
}"""

HOLDS = """function(text) {
  const body = document.body ? document.body.innerText : '';
  const fields = [...document.querySelectorAll('input:not([type=password]), textarea')].slice(0, 1000);
  return {found: body.includes(text) || fields.some(f => f.value.includes(text))};
}"""

READY = """function() {
  const entry = performance.getEntriesByType('navigation')[0];
  return {
    state: document.readyState, status: (entry && entry.responseStatus) || 0,
    elements: document.getElementsByTagName('*').length,
  };
}"""

BOUND = """function(limit) {
  const value = this;
  let text;
  try { text = JSON.stringify(value); } catch (e) {}
  if (text === undefined) text = String(value);
  return {text: text.slice(0, limit), length: text.length};
}"""

EVALUATE = """(async () => {
  let value;
  try { value = await (
EXPRESSION
); } catch (e) { return {thrown: String(e).slice(0, 2000)}; }
  if (value && value.nodeType === 1) value = value.outerHTML;
  let text;
  try { text = JSON.stringify(value); } catch (e) {}
  if (text === undefined) text = String(value);
  return {text: text.slice(0, LIMIT), length: text.length};
})()"""
"""Shortens the value of an expression before it leaves the page."""

OUTLINE = """function(most) {
  let remaining = most;
  let cut = false;
  const skip = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'SVG', 'HEAD', 'OBJECT', 'EMBED', 'DIALOG']);
  const block = n => !/^(inline|contents)/.test(getComputedStyle(n).display);
  const field = n => {
    const type = (n.type || '').toLowerCase();
    const labels = n.labels && n.labels.length ? n.labels[0].innerText : '';
    const name = n.getAttribute('aria-label') || labels || n.placeholder || n.name || '';
    if (type === 'hidden') return null;
    const item = {t: 'field', kind: n.tagName === 'INPUT' ? type : n.tagName.toLowerCase(), name: name.slice(0, 200)};
    if (type === 'checkbox' || type === 'radio') return {...item, on: n.checked};
    if (type === 'password') return {...item, value: n.value ? '(filled)' : ''};
    const all = words => ({...item, value: words.join(', ').slice(0, 500)});
    if (n.tagName === 'SELECT') return all([...n.selectedOptions].map(o => o.label));
    if (type === 'file') return all([...n.files].map(f => f.name));
    return {...item, value: n.value.slice(0, 2000)};
  };
  const kids = (n, depth) => {
    const from = n.shadowRoot || n;
    const list = n.tagName === 'SLOT' && n.assignedNodes().length ? n.assignedNodes() : from.childNodes;
    const out = [];
    for (const child of list) {
      if (remaining <= 0) { cut = true; break; }
      const copy = walk(child, depth + 1);
      if (copy !== null) out.push(copy);
    }
    return out;
  };
  const walk = (n, depth) => {
    if (n.nodeType === 3) {
      const text = n.data;
      if (!text) return null;
      remaining -= text.length + 1;
      return text.slice(0, 100000);
    }
    if (n.nodeType !== 1 || depth > 150) return null;
    const tag = n.tagName.toUpperCase();
    if ((skip.has(tag) && !(tag === 'DIALOG' && n.open)) || n.hidden && n.hidden !== 'until-found') return null;
    const style = getComputedStyle(n);
    if (style.display === 'none' || style.visibility === 'hidden' && !n.children.length) return null;
    remaining -= 8;
    if (tag === 'INPUT' && ['button', 'submit', 'reset'].includes(n.type)) {
      return {t: 'button', c: [n.value || n.type]};
    }
    if (['INPUT', 'TEXTAREA', 'SELECT'].includes(tag)) return field(n);
    if (tag === 'IMG') return n.alt ? {t: 'img', alt: n.alt.slice(0, 300)} : null;
    if (tag === 'IFRAME' || tag === 'FRAME') {
      let inner = null;
      try { inner = n.contentDocument; } catch (e) {}
      if (!inner || !inner.body) return {t: 'frame', href: n.src.slice(0, 500)};
      return {t: 'div', b: true, c: kids(inner.body, depth)};
    }
    const item = {t: tag.toLowerCase().slice(0, 30), c: kids(n, depth)};
    if (block(n)) item.b = true;
    if (tag === 'A' && n.href) item.href = String(n.href).slice(0, 1000);
    if (tag === 'OL' && n.start !== 1) item.start = n.start;
    return item;
  };
  const tree = document.body ? walk(document.body, 0) : null;
  return {tree, cut};
}"""
"""Returns a page's body as nested objects: tag, children, and the relevant attributes."""
