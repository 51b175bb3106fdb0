// The list of requests that have ended, and the waterfall of the one that is open.

import { waterfall } from './charts.js';
import { address, el, fill, keyed, mark, row, setText, swap } from './dom.js';
import { makeFilters } from './filters.js';
import { bytes, clock, count, duration, words } from './format.js';
import { clientCell, fromCell, requestCell, traceLink } from './panels.js';

// The list of all kinds has so many rows, and so many of them are ordinary ones.
const SHOWN = 30;
const ORDINARY = 8;
const HELD = 64; // of each class, as the server does by default

const classes = {
  '': 'all', cancelled: 'cancelled', error: 'errors', dropped: 'dropped', panic: 'panics', abandoned: 'abandoned',
  rejected: 'rejected', caller_error: 'caller errors', subscription: 'subscriptions', slow: 'slowest', recent: 'answered',
};
const singular = { error: 'error', panic: 'panic', caller_error: 'caller error', slow: 'slow', recent: 'answered' };

let rows = []; // the newest first
let filter = '';
let open = ''; // the id of the open row
let seq = 0; // of the last frame
const table = document.getElementById('traces');
const body = table.tBodies[0];
const chips = document.getElementById('classes');
const narrowed = makeFilters(document.getElementById('filters'), refresh);

// why says in words what has happened.
function why(t) {
  if (t.reject_reason) return words(t.reject_reason, t.error_message && `– ${t.error_message}`);
  if (t.panic) return t.panic;
  const dropped = t.drop_reason && t.drop_reason !== 'cancelled' && `answer dropped: ${t.drop_reason}`;
  if (t.cancel_cause) {
    return [words(t.cancel_cause, `after ${duration(t.cancelled_after_seconds || 0)}`, t.cancel_detail && `“${t.cancel_detail}”`), t.abandoned && 'handler abandoned', dropped].filter(Boolean).join(', ');
  }
  if (dropped) return dropped;
  if (t.tool_error && t.argument_faults) return `arguments rejected: ${t.argument_faults}`;
  if (t.tool_error) return 'tool_error';
  if (t.error_code) return words(String(t.error_code), t.error_message);
  return t.subscription_end || '';
}

function render() {
  const items = [];
  let ordinary = 0;
  const those = rows.filter((t) => t.id === open || narrowed.matches(t));
  const list = filter ? those.filter((t) => t.class === filter)
    : those.filter((t) => t.id === open || t.class !== 'recent' || narrowed.query() || ++ordinary <= ORDINARY).slice(0, SHOWN);
  for (const t of list) {
    items.push({ key: t.id, trace: t });
    if (t.id === open) items.push({ key: `${t.id} detail`, detail: t });
  }
  if (items.length === 0) items.push({ key: 'none' });
  keyed(body, items, (item) => item.key, make, update);
}

function make(item) {
  const columns = table.tHead.rows[0].cells.length;
  if (item.detail) return el('tr', { class: 'detail', id: `detail-${item.detail.id}` }, el('td', { colspan: columns }, 'Loading …'));
  if (!item.trace) return el('tr', { class: 'empty' }, el('td', { colspan: columns }, 'None of this kind is kept.'));
  const tr = row(table, columns);
  tr.onclick = (event) => !event.target.closest('a, button') && !String(getSelection()) && toggle(item.trace.id);
  return tr;
}

function update(tr, item) {
  const t = item.trace;
  if (!t) return;
  const [outcome, request, took, reason, client, from, at, trace] = tr.cells;
  swap(outcome, t.id, () => mark(t.class, singular[t.class] ?? t.class));
  if (!tr.opener) {
    tr.opener = el('button', { class: 'opener', type: 'button', 'aria-controls': `detail-${t.id}`, onclick: () => toggle(t.id) }, t.tool || t.method);
    request.replaceChildren(...requestCell(t, tr.opener));
    fill(took, duration(t.seconds));
    fill(reason, words(why(t), t.tool_error && t.error && `– ${t.error}`));
    clientCell(client, t);
    fromCell(from, t);
    fill(at, clock(new Date(t.at)));
    traceLink(trace, t);
  }
  tr.opener.setAttribute('aria-expanded', String(t.id === open));
}

async function toggle(id) {
  open = open === id ? '' : id;
  render();
  if (!open) return;
  const cell = document.getElementById(`detail-${id}`).firstElementChild;
  try {
    const response = await fetch(address(`debug/traces/${id}`));
    if (!response.ok) throw new Error(await response.text());
    cell.replaceChildren(...details(await response.json()));
  } catch (error) {
    setText(cell, `It cannot be shown: ${error.message.trim()}.`);
  }
}

function details(t) {
  const facts = el('dl', { class: 'facts' });
  const fact = (name, value) => value && facts.append(el('div', {}, el('dt', {}, name), el('dd', {}, value)));
  fact('arrived', new Date(t.at).toISOString());
  fact('took', duration(t.seconds));
  fact('answer', words(t.outcome, t.drop_reason && `(${t.drop_reason})`));
  fact('why', why(t));
  fact('error', t.error);
  fact('decision', words(t.decision, t.rule && `by ${t.rule}`, t.decision_reason && `– ${t.decision_reason}`));
  fact('principal', words(t.principal, t.tenant && `of ${t.tenant}`));
  fact('client', words(t.client, t.client_version));
  fact('from', words(t.transport, t.remote));
  fact('forwarded for', t.forwarded_for);
  fact('via', t.via);
  fact('class', t.concurrency_class);
  fact('session', t.session);
  fact('request', words(t.method, t.tool, `id ${t.request_id}`));
  fact('revision', t.protocol_version);
  fact('size', words(t.request_bytes && `${bytes(t.request_bytes)} in`, t.answer_bytes && `${bytes(t.answer_bytes)} out`));
  fact('trace', t.trace_id && el('span', { class: 'mono' }, t.trace_id));
  return [facts, waterfall(t)];
}

function showChips(kept) {
  const sum = Object.values(kept).reduce((a, b) => a + b, 0);
  keyed(chips, Object.keys(classes), (c) => c || 'all', (c) => {
    const button = el('button', { type: 'button', onclick: () => choose(c) },
      c ? mark(c, '').firstChild : '', classes[c], el('span', { class: 'n' }));
    return button;
  }, (button, c) => {
    setText(button.lastChild, count(c ? kept[c] ?? 0 : sum));
    button.setAttribute('aria-pressed', String(c === filter));
  });
}

let kept = {};

function choose(c) {
  filter = c;
  showChips(kept);
  refresh();
}

// refresh shows what is wanted now, also of those that this page does not hold.
function refresh() {
  open = '';
  render();
  fetchRows().catch(() => {});
}

// add takes rows into the list, each once, and lets go of those that nobody will see.
function add(fresh) {
  const known = new Map([...rows, ...fresh].map((t) => [t.id, t]));
  rows = [...known.values()].sort((a, b) => Number(b.id) - Number(a.id));
  const held = {}; // of each class, and of those that are wanted in particular
  rows = rows.filter((t) => {
    const of = `${t.class} ${narrowed.matches(t)}`;
    return (held[of] = (held[of] ?? 0) + 1) <= HELD || t.id === open;
  });
}

async function fetchRows() {
  const response = await fetch(address(`debug/traces?limit=${filter ? HELD : 4 * HELD}${filter && `&class=${filter}`}${narrowed.query()}`));
  if (!response.ok) return;
  add((await response.json()).traces);
  render();
}

// showTraces takes the new rows of a frame. What a frame that was missed would have
// brought is fetched.
export function showTraces(frame) {
  kept = frame.kept;
  showChips(kept);
  if (frame.traces.left_out || (seq && frame.seq !== seq + 1)) fetchRows().catch(() => {});
  seq = frame.seq;
  add(frame.traces.rows);
  render();
}

// Escape closes the open row and goes back to its button; arrows go from row to row.
table.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && open) {
    const id = open;
    toggle(open);
    body.querySelector(`[aria-controls="detail-${id}"]`)?.focus();
    event.preventDefault();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && event.target.classList.contains('opener')) {
    const openers = [...body.querySelectorAll('.opener')];
    openers[openers.indexOf(event.target) + step]?.focus();
    event.preventDefault();
  }
});
