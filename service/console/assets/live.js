// The stream of frames. It is open only while somebody can see the page.

import { address } from './dom.js';

export const RETRY_AFTER = 5000; // ms

// connect calls onFrame for each frame and onState when the state changes: connecting,
// live, lost, paused. It returns what pauses and resumes.
export function connect(onFrame, onState) {
  let source = null;
  let timer = 0;
  let paused = false;
  let process = '';

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function open() {
    close();
    if (paused || document.hidden) return;
    onState('connecting');
    source = new EventSource(address('debug/live'));
    source.addEventListener('frame', (event) => {
      const frame = JSON.parse(event.data);
      if (!frame) return;
      if (process && frame.process !== process) { // another one, whose numbers begin anew
        location.reload();
        return;
      }
      process = frame.process;
      onState('live');
      onFrame(frame);
    });
    source.addEventListener('error', () => {
      onState('lost');
      if (source.readyState === EventSource.CLOSED) { // refused: the browser does not try again
        close();
        timer = setTimeout(open, RETRY_AFTER);
      }
    });
  }

  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  window.addEventListener('pagehide', close);
  window.addEventListener('pageshow', (event) => event.persisted && open());
  open();
  return {
    pause(on) {
      paused = on;
      if (on) {
        close();
        onState('paused');
      } else {
        open();
      }
    },
  };
}
