// What has changed: the lines of debug/changes, which the server finds.

import { address, el, keyed, setText, swap } from './dom.js';
import { clock } from './format.js';

const EVERY = 10000; // ms; the server looks once in ten seconds
const list = document.getElementById('changes');
const windows = document.getElementById('windows');
const fault = document.getElementById('windows-fault');
const prometheus = document.body.dataset.prometheus;
let asked = 0;
let refused = ''; // the query that the server does not take

// query shows a query for Prometheus, and whose calls it counts if they are more than those of the line.
function query(change) {
  const shown = link(change.promql);
  return change.promql_covers ? el('span', { class: 'sub' }, shown, ` of ${change.promql_covers}`) : shown;
}

// link shows a query as a link if there is somewhere to run it.
function link(promql) {
  const text = el('code', { class: 'query' }, promql);
  if (!prometheus) return text;
  const href = `${prometheus}/graph?g0.expr=${encodeURIComponent(promql)}&g0.tab=0&g0.range_input=2h`;
  return el('a', { href, target: '_blank', rel: 'noopener noreferrer' }, text);
}

// links leads to the requests behind a line, to the newest of their traces, and shows the query.
function links(change) {
  return el('p', { class: 'links' },
    el('a', { href: address(`${change.requests.slice(1)}&format=text`) }, 'requests'),
    ...change.traces.map((id) => el('a', { href: address(`debug/traces/${id}?format=text`), 'aria-label': `Trace ${id}`, class: 'mono' }, id.slice(0, 8))),
    query(change));
}

function show(page) {
  setText(document.getElementById('n-changes'), page.history.oldest ? `times in UTC, known since ${clock(new Date(page.history.oldest))} here` : '');
  const items = page.changes.length > 0 ? page.changes : [null];
  keyed(list, items, (change) => (change ? change.text : ''), () => el('li'), (li, change) => {
    swap(li, JSON.stringify(change), () => (change ? [el('p', {}, change.text), change.example && el('p', { class: 'sub' }, `for example: ${change.example}`), links(change)].filter(Boolean) : 'Nothing has changed.'));
  });
}

// chosen is the query of the windows that are filled in.
function chosen() {
  return [...windows.elements].filter((input) => input.value.trim() !== '')
    .map((input) => `&${input.name}=${encodeURIComponent(input.value.trim())}`).join('');
}

async function fetchChanges() {
  const times = chosen();
  if (times !== '' && times === refused) return;
  const response = await fetch(address(`debug/changes?format=json${times}`));
  if (chosen() !== times) return; // other windows were asked for meanwhile
  refused = response.status === 400 ? times : '';
  setText(fault, refused && await response.text());
  if (refused) list.hidden = true;
  if (!response.ok) return;
  list.hidden = false;
  show(await response.json());
}

windows.onchange = () => fetchChanges().catch(() => {});
windows.onsubmit = (event) => event.preventDefault(); // Enter has changed a field before

// showChanges asks for the changes again if the last answer is old. A page that gets no frames does not ask.
export function showChanges(frame) {
  const now = Date.parse(frame.at);
  if (Math.abs(now - asked) < EVERY) return;
  asked = now;
  fetchChanges().catch(() => {});
}
