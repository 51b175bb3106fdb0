// The panels that show the newest frame.

import { Series, bars, range, sparkline } from './charts.js';
import { el, fill, keyed, mark, row, setData, setText, swap } from './dom.js';
import { makeFilters } from './filters.js';
import { age, count, duration, rate, words } from './format.js';

const $ = (id) => document.getElementById(id);
const jaeger = document.body.dataset.jaeger;

// traceLink shows a trace id, as a link if there is somewhere to look at it.
export function traceLink(cell, item) {
  const id = item.trace_id ?? '';
  cell.toggleAttribute('data-empty', !id);
  swap(cell, id, () => {
    if (!id) return '–';
    const short = el('span', { class: 'mono', title: id }, id.slice(0, 8));
    if (!jaeger || item.sampled === false) return short;
    return el('a', { href: `${jaeger}/trace/${id}`, target: '_blank', rel: 'noopener noreferrer', 'aria-label': `Trace ${id} in Jaeger` }, short);
  });
}

// requestCell names what was asked for, with its method below if that says more.
export function requestCell(item, lead) {
  const name = item.tool || item.method || '–';
  const sub = words(item.tool && item.method, item.id !== undefined && item.request_id === undefined && `id ${item.id}`, item.request_id !== undefined && `id ${item.request_id}`);
  return [lead ?? el('strong', {}, name), el('span', { class: 'sub' }, sub)];
}

export function clientCell(cell, item) {
  const who = words(item.client, item.client_version);
  cell.toggleAttribute('data-empty', !who);
  const sub = words(item.principal, item.tenant && `of ${item.tenant}`, item.protocol_version);
  swap(cell, `${who}|${sub}`, () => [who || '–', el('span', { class: 'sub' }, sub)]);
}

export function fromCell(cell, item) {
  swap(cell, `${item.transport}|${item.remote}|${item.session}`, () => [
    item.remote || item.transport || '–',
    el('span', { class: 'sub' }, words(item.remote && item.transport, item.session && item.session !== item.transport && `session ${item.session}`)),
  ]);
}

const tiles = [
  { name: 'Requests', unit: '/s', get: (f) => f.rates?.admitted, show: rate, sum: (f) => `${count(f.totals.admitted)} since the start` },
  { name: 'Answers', unit: '/s', tone: 'good', get: (f) => f.rates?.sent, show: rate, sum: (f) => `${count(f.totals.sent + f.totals.stored)} since the start` },
  { name: 'Errors', unit: '/s', tone: 'bad', get: (f) => f.rates?.errors, show: rate, sum: (f) => `${count(f.errors)} since the start` },
  { name: 'Cancelled', unit: '/s', get: (f) => f.rates?.cancelled, show: rate, sum: (f) => `${count(total(f.totals.cancelled))} since the start` },
  { name: 'Dropped', unit: '/s', tone: 'bad', get: (f) => f.rates?.dropped, show: rate, sum: (f) => `${count(total(f.totals.dropped))} since the start` },
  { name: 'In flight', unit: '', get: (f) => inFlight(f), show: count, sum: (f) => `${f.subscriptions.rows.length + (f.subscriptions.left_out ?? 0)} subscriptions` },
  { name: 'Oldest', unit: '', tone: 'warn', get: (f) => f.oldest_age_seconds, show: (s) => (s ? age(s) : '–'), sum: () => 'age of a request in flight' },
];

function total(counts) {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

function inFlight(f) {
  return f.requests.rows.length + (f.requests.left_out ?? 0);
}

function showTiles(frame) {
  keyed($('tiles'), tiles, (t) => t.name, (t) => {
    const node = el('div', { class: 'tile', 'data-tone': t.tone });
    t.series = new Series();
    t.value = el('span', {});
    t.sumNode = el('div', { class: 'sum' });
    t.spark = sparkline();
    node.append(el('div', { class: 'name' }, t.name), el('div', { class: 'value' }, t.value, el('span', { class: 'unit' }, t.unit)), t.spark, t.sumNode);
    return node;
  }, (_, t) => {
    const value = t.get(frame);
    setText(t.value, value === undefined ? '–' : t.show(value));
    setText(t.sumNode, t.sum(frame));
    if (value === undefined) return;
    t.series.push(value);
    t.spark.draw(t.series);
  });
}

const states = ['queued', 'running', 'blocked', 'writing', 'cancelled', 'listening'];

let newest; // frame
const narrowed = makeFilters($('inflight-filters'), () => newest && showInFlight(newest));

function showInFlight(frame) {
  newest = frame;
  const table = $('inflight');
  const all = [...frame.requests.rows, ...frame.subscriptions.rows];
  const requests = all.filter(narrowed.matches);
  const hidden = all.length - requests.length;
  setText($('n-inflight'), (hidden ? `${count(requests.length)} of ${count(all.length)}` : '')
    + leftOut(frame.requests, 'more requests') + leftOut(frame.subscriptions, 'more subscriptions'));
  keyed($('states'), states.map((state) => [state, frame.in_flight[state] ?? 0]), ([state]) => state,
    ([state]) => el('li', {}, mark(state), ' ', el('b', {})),
    (li, [, n]) => {
      setText(li.lastChild, count(n));
      li.classList.toggle('zero', n === 0);
    });
  rowsOf(table, requests, (r) => `${r.session ?? r.remote}|${r.id}|${r.span_id ?? r.trace_id}`, noneText(frame, hidden), (tr, r) => {
    const [state, old, request, client, from, deadline, trace] = tr.cells;
    setData(tr, 'state', r.state);
    swap(state, r.state + r.cancel_cause + r.abandoned, () => [mark(r.state), el('span', { class: 'sub' })]);
    setText(state.lastChild, r.cancel_cause ? words(r.cancel_cause, `${age(r.cancelled_for_seconds ?? 0)} ago`, r.cancel_detail && `“${r.cancel_detail}”`, r.abandoned && '– abandoned: the handler goes on') : r.in && r.in !== 'handler' ? `in ${r.in}` : '');
    fill(old, age(r.age_seconds));
    swap(request, r.method + r.tool + r.id, () => requestCell(r));
    clientCell(client, r);
    fromCell(from, r);
    const left = r.cancel_cause ? undefined : r.deadline_seconds;
    fill(deadline, left === undefined ? '' : left < 0 ? `${age(-left)} ago` : `in ${duration(Math.round(left))}`);
    deadline.classList.toggle('late', left < 0);
    traceLink(trace, r);
  });
}

// noneText says why no request is shown. A frame does not have all of them.
function noneText(frame, hidden) {
  if (!hidden) return 'Nothing is in flight.';
  const more = (frame.requests.left_out ?? 0) + (frame.subscriptions.left_out ?? 0);
  return more ? `None of these ${count(hidden)} is like that. ${count(more)} more were not looked at: debug/requests has all.` : 'Nothing like that is in flight.';
}

function leftOut(list, what) {
  return list.left_out ? ` and ${list.left_out} ${what}` : '';
}

// rowsOf keeps a table's rows, and a line that says so if there are none.
export function rowsOf(table, items, key, none, update) {
  const body = table.tBodies[0];
  const columns = table.tHead.rows[0].cells.length;
  const rows = items.length > 0 ? items : [null];
  keyed(body, rows, (item) => (item ? key(item) : none),
    (item) => (item ? row(table, columns) : el('tr', { class: 'empty' }, el('td', { colspan: columns }, none))),
    (tr, item) => item && update(tr, item));
}

// A minute of counts, to say what is new in it.
const MINUTE = 60000; // ms
const minute = [];

function showCounts(frame) {
  const now = Date.parse(frame.at);
  minute.push({ at: now, totals: frame.totals });
  // Without frames for a while, as in a hidden tab, all of them are too old. The server's clock may be set back.
  while (Math.abs(now - minute[0].at) > MINUTE) minute.shift();
  const before = minute[0].totals;
  const seconds = Math.round((now - minute[0].at) / 1000);
  const since = seconds < 59 ? `in the last ${seconds} s` : 'in the last minute'; // a frame comes each second
  for (const [id, name] of [['causes', 'cancelled'], ['drops', 'dropped'], ['rejects', 'rejected']]) {
    const list = $(id);
    keyed(list, bars(list, frame.totals[name], before[name]), (b) => b.name, (b) => {
      if (!b.name) return el('li', { class: 'empty' }, el('span', {}));
      const bar = el('div', { class: 'fill' });
      const li = el('li', {}, el('span', {}, b.name), el('span', { class: 'n' }), el('span', { class: 'plus' }), el('div', { class: 'track', 'aria-hidden': 'true' }, bar));
      return Object.assign(li, { bar });
    }, (li, b) => {
      if (!b.name) {
        setText(li.firstChild, li.parentNode.children.length > 1 ? `${b.zero} others: none` : 'None.');
        return;
      }
      setText(li.children[1], count(b.n));
      setText(li.children[2], b.plus > 0 ? `+${count(b.plus)}` : '');
      li.children[2].title = since;
      li.bar.style.width = `${Math.max(1, b.share * 100)}%`;
    });
  }
}

// showShares says how much of each shared limit is taken, and which caller holds the most of it.
function showShares(frame) {
  const items = frame.shares.length > 0 ? frame.shares : [null];
  keyed($('shares'), items, (s) => s?.limit ?? '', (s) => {
    if (!s) return el('li', { class: 'empty' }, el('span', {}, 'Nothing.'));
    const bar = el('div', { class: 'fill' });
    const li = el('li', {}, el('span', {}, s.limit), el('span', { class: 'n' }), el('span', { class: 'who' }), el('div', { class: 'track', 'aria-hidden': 'true' }, bar));
    return Object.assign(li, { bar });
  }, (li, s) => {
    if (!s) return;
    setText(li.children[1], `${count(s.used)} of ${count(s.size)}`);
    setText(li.children[2], [s.caller && `${s.caller} has ${count(s.largest)}`, s.waiting > 0 && `${count(s.waiting)} callers wait`].filter(Boolean).join(', '));
    li.bar.style.width = `${Math.max(1, (s.used / Math.max(1, s.size)) * 100)}%`;
  });
}

function showTools(frame) {
  const table = $('tools');
  setText($('n-tools'), leftOut(frame.tools, 'more'));
  rowsOf(table, frame.tools.rows, (t) => `${t.method}|${t.tool ?? ''}`, 'Nothing was called yet.', (tr, t) => {
    const [name, calls, perSecond, p50, p95, p99, spread, errors] = tr.cells;
    name.classList.add('name-cell');
    swap(name, t.method + t.tool, () => [el('strong', {}, t.tool || t.method), t.tool && t.method !== 'tools/call' ? el('span', { class: 'sub' }, t.method) : null]);
    fill(calls, count(t.calls));
    fill(perSecond, t.window_seconds ? rate(t.rate) : '');
    fill(p50, duration(t.p50));
    fill(p95, duration(t.p95));
    fill(p99, duration(t.p99));
    spread.range ??= spread.appendChild(range());
    spread.range.draw(t);
    tr.title = t.window_seconds ? '' : 'not called in the last minute: since the start';
    fill(errors, count(t.errors));
    errors.classList.toggle('some', t.errors > 0);
  });
}

function showSessions(frame) {
  const { rows } = frame.sessions;
  setText($('n-sessions'), leftOut(frame.sessions, 'more'));
  const facts = [
    ['sessions', words(count(rows.length + (frame.sessions.left_out ?? 0)), rows.length > 0 && `(${Object.entries(frame.sessions_by_transport).map(([t, n]) => `${n} ${t}`).join(', ')})`)],
    ['own streams', count(frame.sessions_streaming)],
    ['subscriptions', count(frame.subscriptions.rows.length + (frame.subscriptions.left_out ?? 0))],
    ['questions to clients', count(frame.outbound.rows.length + (frame.outbound.left_out ?? 0))],
    ['events kept', frame.stored_events?.events ? `${count(frame.stored_events.events)}, the oldest ${age(frame.stored_events.oldest_age_seconds)}` : '0'],
    ['running tasks', count(frame.tasks.rows.length + (frame.tasks.left_out ?? 0))],
  ];
  keyed($('streams'), facts, ([name]) => name, ([name]) => el('div', {}, el('dt', {}, name), el('dd', {})), (div, [, value]) => setText(div.lastChild, value));
  rowsOf($('sessions'), rows, (s) => `${s.session}|${s.remote}|${s.transport}`, 'No session is open. Modern HTTP requests need none.', (tr, s) => {
    const [session, client, old, idle, requests] = tr.cells;
    swap(session, `${s.session}|${s.remote}|${s.transport}|${s.streaming}`, () => [
      s.streaming ? mark('listening', s.session) : el('strong', {}, s.session),
      el('span', { class: 'sub' }, words(s.transport !== s.session && s.transport, s.remote, s.streaming && ', listens on its own stream')),
    ]);
    clientCell(client, s);
    fill(old, duration(Math.round(s.age_seconds)));
    fill(idle, s.idle_seconds ? duration(Math.round(s.idle_seconds)) : '');
    fill(requests, count(s.requests));
  });
}

export function showFrame(frame) {
  showTiles(frame);
  showInFlight(frame);
  showCounts(frame);
  showShares(frame);
  showTools(frame);
  showSessions(frame);
}
