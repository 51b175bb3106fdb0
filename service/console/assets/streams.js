// The event streams that ended last, and the disconnects of the last minutes.

import { el, fill, setText, swap } from './dom.js';
import { age, clock, count, duration, words } from './format.js';
import { clientCell, fromCell, requestCell, rowsOf, traceLink } from './panels.js';

// peers names the versions of clients with the most disconnects.
function peers({ clients = [], clients_left_out: others = 0 }) {
  const named = clients.map((c) => `${words(c.client, c.client_version) || 'unknown'} ${count(c.count)}`);
  return [...named, others && `${count(others)} others`].filter(Boolean).join(', ');
}

function showDisconnects(d) {
  const recent = `in the last ${duration(d.window_seconds)}`;
  const sum = `${d.incomplete ? 'more than ' : ''}${count(d.count)} disconnects ${recent}`;
  setText(document.getElementById('disconnects'), d.text || (d.count ? `${sum}, at different ages.` : `No client has disconnected ${recent}.`));
  setText(document.getElementById('disconnected'), d.count ? `By client: ${peers(d)}` : '');
}

// showStreams shows what a frame has of them.
export function showStreams(frame) {
  showDisconnects(frame.disconnects);
  const { rows, left_out: more } = frame.ended_streams;
  setText(document.getElementById('n-ended'), more ? `and ${count(more)} more streams` : '');
  rowsOf(document.getElementById('ended'), rows, (s) => `${s.at}|${s.session ?? ''}|${s.remote ?? ''}|${s.trace_id ?? ''}`, 'No stream has ended.', (tr, s) => {
    const [ended, lived, request, client, from, at, trace] = tr.cells;
    swap(ended, s.reason + s.kind, () => [el('strong', {}, s.reason), el('span', { class: 'sub' }, s.kind)]);
    fill(lived, age(s.age_seconds));
    swap(request, `${s.tool}|${s.request_id}`, () => (s.tool || s.request_id ? requestCell(s) : '–'));
    clientCell(client, s);
    fromCell(from, s);
    fill(at, clock(new Date(s.at)));
    traceLink(trace, s);
  });
}
