// Small helpers to make and to update elements. All text comes in as text nodes: nothing
// that a client has sent is ever read as HTML, and no character of it changes how others look.

// address returns the whole address of a path beside this page. It has no user and no password, also
// if the address of the page has them: browsers refuse to fetch such addresses.
export const address = (path) => new URL(path, location.origin + location.pathname).href;

const SVG = 'http://www.w3.org/2000/svg';

// DECEPTIVE are the characters without a shape: controls, and those that turn the direction of
// text, join others or end a line. Not those that choose between shapes of the character before.
const DECEPTIVE = /(?!\p{Variation_Selector}|[\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

// visible replaces them.
export function visible(text) {
  return typeof text === 'string' ? text.replace(DECEPTIVE, '\ufffd') : text;
}

// el makes an element. A prop that is a function is set as a property, all others as
// attributes; null and false leave the attribute out.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === false || value === undefined) continue;
    if (typeof value === 'function') node[name] = value;
    else node.setAttribute(name, value === true ? '' : visible(value));
  }
  node.append(...children.filter((c) => c !== null && c !== undefined).map(visible));
  return node;
}

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// mark is a word with its shape, so that nothing is told by colour alone.
export function mark(name, word = name) {
  return el('span', { class: 'mark', 'data-mark': name },
    svg('svg', { class: 'icon', 'aria-hidden': 'true' }, svg('use', { href: `#i-${name}` })), word);
}

// setText touches the document only if the text is another one.
export function setText(node, text) {
  text = visible(text);
  if (node.textContent !== text) node.textContent = text;
}

export function setData(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

// swap replaces what a node holds if its description has changed.
export function swap(node, description, make) {
  if (node.described === description) return;
  node.described = description;
  node.replaceChildren(...[make()].flat().filter((c) => c !== null && c !== undefined).map(visible));
}

// keyed makes the children of a parent those that belong to the items, in their order.
// Children are kept for as long as there is an item with their key, so that focus and
// scrolling survive an update. make(item) returns a new child, update(child, item) fills it.
export function keyed(parent, items, key, make, update) {
  parent.kids ??= new Map();
  const seen = new Set();
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    if (seen.has(k)) continue;
    seen.add(k);
    let child = parent.kids.get(k);
    if (!child) {
      child = make(item);
      parent.kids.set(k, child);
    }
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
    update(child, item);
  }
  for (const [k, child] of parent.kids) {
    if (!seen.has(k)) {
      child.remove();
      parent.kids.delete(k);
    }
  }
}

// cells makes a row of a table. On a narrow screen the label stands before the value.
export function row(table, count) {
  const labels = [...table.tHead.rows[0].cells];
  const tr = el('tr', { class: 'row' });
  for (let i = 0; i < count; i++) {
    tr.append(el('td', { class: labels[i].className || null, 'data-label': labels[i].textContent }));
  }
  tr.cells[0].classList.add('lead');
  return tr;
}

// fill sets the text of a cell; an empty one is left out on a narrow screen.
export function fill(cell, text) {
  setText(cell, text || '–');
  cell.toggleAttribute('data-empty', !text);
}
