// What has changed: the lines of debug/changes, which the server finds.

import { address, el, keyed, setText, swap } from './dom.js';
import { clock } from './format.js';

const EVERY = 10000; // ms; the server looks once in ten seconds
const list = document.getElementById('changes');
let asked = 0;

// links leads to the requests behind a line, to the newest of their traces, and shows the query.
function links(change) {
  return el('p', { class: 'links' },
    el('a', { href: address(`${change.requests}&format=text`) }, 'requests'),
    ...change.traces.map((id) => el('a', { href: address(`debug/traces/${id}?format=text`), 'aria-label': `Trace ${id}`, class: 'mono' }, id.slice(0, 8))),
    el('code', { class: 'query' }, change.promql));
}

function show(page) {
  setText(document.getElementById('n-changes'), page.history.oldest ? `times in UTC, known since ${clock(new Date(page.history.oldest))} here` : '');
  const items = page.changes.length > 0 ? page.changes : [null];
  keyed(list, items, (change) => (change ? change.text : ''), () => el('li'), (li, change) => {
    swap(li, JSON.stringify(change), () => (change ? [el('p', {}, change.text), change.example && el('p', { class: 'sub' }, `for example: ${change.example}`), links(change)].filter(Boolean) : 'Nothing has changed.'));
  });
}

async function fetchChanges() {
  const response = await fetch(address('debug/changes?format=json'));
  if (response.ok) show(await response.json());
}

// showChanges asks for the changes again if the last answer is old. A page that gets no frames does not ask.
export function showChanges(frame) {
  const now = Date.parse(frame.at);
  if (Math.abs(now - asked) < EVERY) return;
  asked = now;
  fetchChanges().catch(() => {});
}
