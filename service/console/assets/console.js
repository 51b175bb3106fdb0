// The console: what the server is doing, from the frames of debug/live.

import { showChanges } from './changes.js';
import { setData, setText } from './dom.js';
import { clock } from './format.js';
import { connect } from './live.js';
import { showFrame } from './panels.js';
import { showReplicas } from './replicas.js';
import { showStreams } from './streams.js';
import { showTraces } from './traces.js';

const $ = (id) => document.getElementById(id);
const stateWords = { connecting: 'connecting', live: 'live', lost: 'connection lost, trying again', paused: 'paused' };

function showState(state) {
  setData($('status'), 'state', state);
  setText($('status-word'), stateWords[state]);
}

// What a screen reader is told of: at most every ten seconds, and only what is new.
const ANNOUNCE_EVERY = 10000; // ms
const sums = { cancelled: 0, dropped: 0, errors: 0 };
let announced = 0;

function announce(frame) {
  const now = Date.parse(frame.at);
  if (now - announced < ANNOUNCE_EVERY) return;
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  const news = { cancelled: sum(frame.totals.cancelled), dropped: sum(frame.totals.dropped), errors: frame.errors };
  const parts = Object.entries(news).filter(([name, n]) => n > sums[name]).map(([name, n]) => `${n - sums[name]} ${name}`);
  if (announced && parts.length > 0) setText($('announce'), `New: ${parts.join(', ')}.`);
  Object.assign(sums, news);
  announced = now;
}

const readinessWords = { ready: 'ready', not_ready: 'not ready', draining: 'draining' };

// showReadiness says what the last probe of readyz has found. Nothing asks on its own.
function showReadiness({ readiness }) {
  const { state = '', since, why } = readiness ?? {};
  setData($('readiness'), 'state', state);
  const word = readinessWords[state];
  setText($('readiness'), word ? `${word} since ${clock(new Date(since))}${why ? `: ${why}` : ''}` : 'readiness: nobody has asked');
}

const stream = connect((frame) => {
  showReadiness(frame);
  setText($('clock'), clock(new Date(frame.at)));
  showFrame(frame);
  showStreams(frame);
  showTraces(frame);
  showChanges(frame);
  showReplicas(frame);
  announce(frame);
}, showState);

$('pause').addEventListener('click', () => {
  const on = $('pause').getAttribute('aria-pressed') !== 'true';
  $('pause').setAttribute('aria-pressed', String(on));
  stream.pause(on);
});
