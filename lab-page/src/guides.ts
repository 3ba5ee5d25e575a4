// Five guided experiments: each sets the form, and says what to change and what to look at.

import { h } from './dom'
import type { Flag } from './model'

interface Step { text: string; flags?: Flag[] }
interface Guide { title: string; question: string; steps: Step[] }

const one = (page: string, rate: string, rtt: string, loss: string, ...transports: string[]): Flag[] => [
  ['page', page], ['rate', rate], ['rtt', rtt], ['loss', loss], ['runs', '10'], ...transports.map((text): Flag => ['transport', text]),
]
const bulk = (loss: string): Flag[] => [
  ['bulk', '10MB'], ['rate', '20mbit'], ['rtt', '80ms'], ['loss', loss], ['runs', '10'], ['transport', 'tcp:cc=cubic'], ['transport', 'tcp:cc=bbr'],
]
const failing = (paths: number): Flag[] => [
  ['bulk', '5MB'], ['path', 'rate=10mbit,rtt=40ms'], ...(paths > 1 ? [['path', 'rate=10mbit,rtt=60ms'] as Flag] : []), ['fail', 'path=1,at=2s,for=20s'], ['runs', '1'], ['transport', 'tcp'], ['transport', 'sctp'],
]

export const GUIDES: Guide[] = [
  {
    title: 'Head-of-line blocking', question: 'What does one lost packet hold up?',
    steps: [
      { text: 'HTTP/2 and HTTP/3 load the same pictures on a network that loses nothing. Note how near they are.', flags: one('gallery', '10mbit', '80ms', '0', 'http2', 'http3') },
      { text: 'Now 2 % of the packets are lost. HTTP/2 has one ordered stream of bytes: what arrives after a lost packet waits for it, whichever object it belongs to. QUIC’s streams wait alone.', flags: one('gallery', '10mbit', '80ms', '2%', 'http2', 'http3') },
      { text: 'Look at the waterfalls below: the part “blocked” is that waiting. Play the packets, and watch the bar stand still after a cross.' },
    ],
  },
  {
    title: 'Six connections against one', question: 'Why did browsers open six?',
    steps: [
      { text: 'HTTP/1.1 with one connection, against six, without loss.', flags: one('news', '10mbit', '80ms', '0', 'http1:connections=1', 'http1', 'http2') },
      { text: 'With loss, six windows shrink one at a time, and one connection that waits holds up only its own objects. Six also claim a larger share of a shared link.', flags: one('news', '10mbit', '80ms', '2%', 'http1:connections=1', 'http1', 'http2') },
      { text: 'Compare “queue” in the waterfalls: requests that wait for a free connection. HTTP/2 has none of it.' },
    ],
  },
  {
    title: 'Handshakes', question: 'What do round trips cost before the first byte?',
    steps: [
      { text: 'A small page over a long way. TCP and TLS 1.3 need two round trips before the first request, QUIC one.', flags: one('article', '20mbit', '300ms', '0', 'http1', 'http2', 'http3', 'http3:resume=0rtt') },
      { text: 'With 0-RTT the request goes with the first packet of a repeated visit. Look at “connect” and “secure” in the waterfalls.' },
      { text: 'Over a short way there is little to gain.', flags: one('article', '20mbit', '20ms', '0', 'http1', 'http2', 'http3', 'http3:resume=0rtt') },
    ],
  },
  {
    title: 'BBR against CUBIC', question: 'Is a lost packet a sign of congestion?',
    steps: [
      { text: 'A download of 10 MB without random loss: both fill the link.', flags: bulk('0') },
      { text: 'Now 1 % of the packets are lost at random. CUBIC takes each loss for congestion and shrinks its window. BBR measures rate and round trip, and goes on.', flags: bulk('1%') },
      { text: 'Play the packets: the curve is the congestion window.' },
    ],
  },
  {
    title: 'A path that fails', question: 'Who goes on when a network is gone?',
    steps: [
      { text: 'A download over one path that is down for 20 seconds, from second 2.', flags: failing(1) },
      { text: 'With a second path, SCTP moves the association there when its timer has expired. TCP has one path only.', flags: failing(2) },
      { text: 'The waiting time follows the retransmission timer. Open the settings of sctp and set rto_min to 200ms.' },
    ],
  },
]

/** Makes the cards. `set` replaces all flags. */
export function cards(set: (flags: Flag[]) => void): HTMLElement {
  return h('div', { class: 'guides' }, ...GUIDES.map((guide) => h('details', { class: 'guide' },
    h('summary', {}, h('b', {}, guide.title), h('span', {}, guide.question)),
    h('ol', {}, ...guide.steps.map((step) => h('li', {}, step.text, ' ', step.flags ? h('button', { type: 'button', click: () => {
      set(step.flags!.map(([name, value]) => [name, value]))
      document.getElementById('answer')?.scrollIntoView({ block: 'start' })
    } }, 'Race this') : null))))))
}
