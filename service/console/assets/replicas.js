// The replicas that share a store: what each says of itself, from debug/replicas.

import { address, el, fill, keyed, row, setText, swap } from './dom.js';
import { age, count, words } from './format.js';

const EVERY = 10000; // ms
const panel = document.querySelector('.panel.replicas');
const table = document.getElementById('replicas');
let asked = 0;
let alone = false; // there is no store, so that there is nothing to ask for

function show(page) {
  alone = page.replicas.length === 0;
  panel.hidden = alone;
  setText(document.getElementById('n-replicas'), count(page.replicas.length));
  setText(document.getElementById('replicas-note'), page.note ?? '');
  keyed(table.tBodies[0], page.replicas, (r) => r.replica, () => row(table, table.tHead.rows[0].cells.length), (tr, r) => {
    const [name, host, version, state, up, inFlight, sessions, tasks] = tr.cells;
    swap(name, r.replica + r.this, () => [el('span', { class: 'mono' }, r.replica), el('span', { class: 'sub' }, r.this ? 'this page is about it' : '')]);
    fill(host, words(r.host, `process ${r.process}`));
    fill(version, r.version);
    fill(state, words(r.draining ? 'drains' : 'serves', r.store_away_seconds && `store away for ${age(r.store_away_seconds)}`));
    fill(up, age((Date.parse(page.at) - Date.parse(r.started)) / 1000));
    fill(inFlight, count(r.in_flight));
    fill(sessions, count(r.sessions));
    fill(tasks, count(r.tasks));
  });
}

async function fetchReplicas() {
  const response = await fetch(address('debug/replicas?format=json'));
  if (response.ok) show(await response.json());
}

// showReplicas asks for the replicas again if the last answer is old. A page that gets no frames does not ask.
export function showReplicas(frame) {
  const now = Date.parse(frame.at);
  if (alone || Math.abs(now - asked) < EVERY) return;
  asked = now;
  fetchReplicas().catch(() => {});
}
