// Sparklines, ranges and waterfalls, of plain elements.

import { el, mark, svg } from './dom.js';
import { duration, words } from './format.js';

export const HISTORY = 90; // points of a sparkline

// A Series is the last values of a rate.
export class Series {
  values = [];

  push(value) {
    this.values.push(value);
    if (this.values.length > HISTORY) this.values.shift();
  }
}

// sparkline makes the drawing of a series; draw it again after each value.
export function sparkline() {
  const line = svg('polyline', { class: 'line' });
  const area = svg('polygon', { class: 'area' });
  const node = svg('svg', { class: 'spark', viewBox: `0 0 ${HISTORY - 1} 26`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, area, line);
  node.draw = (series) => {
    const top = Math.max(1e-9, ...series.values);
    const first = HISTORY - series.values.length;
    const points = series.values.map((v, i) => `${first + i},${(25 - (v / top) * 23).toFixed(1)}`);
    line.setAttribute('points', points.join(' '));
    area.setAttribute('points', points.length ? `${first},26 ${points.join(' ')} ${HISTORY - 1},26` : '');
  };
  return node;
}

// place returns where a duration is between 100 µs and 100 s, in percent, on a
// logarithmic scale.
function place(seconds) {
  return Math.min(100, Math.max(0, ((Math.log10(Math.max(seconds, 1e-9)) + 4) / 6) * 100));
}

// range draws p50 to p99 and a line at p95.
export function range() {
  const band = el('i');
  const tick = el('b');
  const node = el('div', { class: 'range', 'aria-hidden': 'true' }, band, tick);
  node.draw = (tool) => {
    band.style.left = `${place(tool.p50)}%`;
    band.style.width = `${Math.max(0, place(tool.p99) - place(tool.p50))}%`;
    tick.style.left = `${place(tool.p95)}%`;
  };
  return node;
}

// waterfall draws the phases of a request and the spans of its trace on one scale.
export function waterfall(trace) {
  const bars = [...trace.phases, ...trace.spans];
  const from = Math.min(0, ...bars.map((b) => b.after_seconds));
  const to = Math.max(trace.seconds, 1e-9, ...bars.map((b) => b.after_seconds + b.seconds));
  const percent = (s) => `${((s - from) / (to - from)) * 100}%`;

  const track = (b, kind) => {
    const bar = el('i', { class: kind });
    bar.style.left = `min(${percent(b.after_seconds)}, 100% - 2px)`;
    bar.style.width = percent(from + b.seconds);
    const node = el('div', { class: 'track2', 'aria-hidden': 'true' }, bar);
    if (trace.cancel_cause) {
      const line = el('b');
      line.style.left = `min(${percent(trace.cancelled_after_seconds || 0)}, 100% - 2px)`;
      node.append(line);
    }
    return node;
  };
  const lane = (label, b, kind) => el('div', { class: 'lane' }, label, track(b, kind), el('span', { class: 'took' }, duration(b.seconds)));

  const fall = el('div', { class: 'fall' }, el('p', { class: 'head' }, words(
    `The request, from its arrival: ${duration(to)} in all.`,
    trace.cancel_cause && `The line is the cancellation, after ${duration(trace.cancelled_after_seconds || 0)}.`)));
  for (const p of trace.phases) {
    fall.append(lane(phaseLabel(p), p, p.phase));
  }
  if (trace.spans.length > 0) fall.append(el('p', { class: 'head' }, 'Spans of the trace in this process'));
  const depths = depthsOf(trace.spans);
  for (const s of trace.spans) fall.append(spanLane(s, depths.get(s.span_id), lane));
  const none = trace.sampled ? 'No span of the trace is kept.' : 'The trace is not sampled: there are no spans.';
  if (trace.spans.length === 0) fall.append(el('p', { class: 'head' }, none));
  if (trace.spans_left_out) fall.append(el('p', { class: 'head' }, `${trace.spans_left_out} more spans were left out.`));
  return fall;
}

// phaseLabel names a phase; the parts of another one are indented.
function phaseLabel(p) {
  const label = el('span', { class: 'label' }, words(phaseNames[p.phase] ?? p.phase, p.name));
  if (parts.has(p.phase)) label.style.paddingLeft = '14px';
  return label;
}

const parts = new Set(['middleware', 'decode', 'handler', 'encode']);
const phaseNames = { queued: 'queued', running: 'running', blocked: 'of that, waiting for the client', writing: 'writing the answer' };

function spanLane(s, depth, lane) {
  const failed = s.status === 'Error';
  const label = el('span', { class: 'label', title: s.name }, failed ? mark('error', '') : null, failed ? ' ' : null, s.name);
  label.style.paddingLeft = `${depth * 14}px`;
  const facts = el('dl', { class: 'attributes mono' });
  const fact = (key, value) => value && facts.append(el('dt', {}, key), el('dd', {}, value));
  fact('status', words(s.status, s.status_text));
  fact('starts after', duration(s.after_seconds));
  for (const a of s.attributes ?? []) fact(a.key, a.value);
  for (const e of s.events ?? []) fact(`at ${duration(e.after_seconds)}`, words(e.name, e.text));
  return el('details', { class: 'span' }, el('summary', {}, lane(label, s, failed ? 'failed' : 'span')), facts);
}

// depthsOf counts the ancestors of each span that are there.
function depthsOf(spans) {
  const byID = new Map(spans.map((s) => [s.span_id, s]));
  const depths = new Map();
  for (const s of spans) {
    let depth = 0;
    for (let up = byID.get(s.parent); up && depth < 12; up = byID.get(up.parent)) depth++;
    depths.set(s.span_id, depth);
  }
  return depths;
}

// bars draws counts as a list, the largest first, and says which are zero.
export function bars(list, counts, before) {
  const some = Object.entries(counts).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const top = Math.max(1, ...some.map(([, n]) => n));
  const rows = some.map(([name, n]) => ({ name, n, plus: n - (before[name] ?? n), share: n / top }));
  const zero = Object.keys(counts).length - some.length;
  if (zero > 0) rows.push({ name: '', zero });
  return rows.map((r) => ({ ...r, list }));
}

