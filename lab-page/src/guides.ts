// Five guided experiments: each sets the form, and says what to change and what to look at.

import { h } from './dom'
import type { Flag } from './model'

/** A step. With `look`, its text asks to look at packets or waterfalls. */
interface Step { text: string; flags?: Flag[]; look?: boolean }
interface Guide { title: string; question: string; steps: Step[] }

const one = (page: string, rate: string, rtt: string, loss: string, ...transports: string[]): Flag[] => [
  ['page', page], ['rate', rate], ['rtt', rtt], ['loss', loss], ['runs', '10'], ...transports.map((text): Flag => ['transport', text]),
]
const messages = (loss: string): Flag[] => [
  ['messages', '50/s'], ['size', '300B'], ['for', '10s'], ['rtt', '80ms'], ['loss', loss], ['runs', '10'], ['transport', 'tcp-tls'], ['transport', 'sctp-dtls'],
]
const files = (loss: string): Flag[] => [
  ['objects', '40x50kB'], ['rate', '20mbit'], ['rtt', '80ms'], ['loss', loss], ['runs', '10'], ['transport', 'http1:connections=1'], ['transport', 'http1'], ['transport', 'http2'],
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
      { text: 'Fifty messages a second, over one TCP connection and over the streams of one SCTP association. Nothing is lost, and all messages take half a round trip.', flags: messages('0') },
      { text: 'Now 2 % of the packets are lost. TCP is one ordered stream: messages that arrive after a lost packet wait for it. That is head-of-line blocking. In SCTP only the stream of the lost message waits. Compare the times that 95 % of the messages need.', flags: messages('2%') },
      { text: 'Does a page load wait in the same way? HTTP/2 has one ordered stream, and HTTP/3 has many. Look at the part “blocked”, what objects waited for lost packets of others. It is longer in HTTP/2, but all objects together wait some hundredths of a second. So it does not decide: HTTP/3 loads later here, because losses cost it more time in other ways.', flags: one('gallery', '10mbit', '80ms', '2%', 'http2', 'http3'), look: true },
    ],
  },
  {
    title: 'Six connections against one', question: 'Why did browsers open six?',
    steps: [
      { text: 'Forty files over one connection, over six, and over HTTP/2, without loss. They are near each other.', flags: files('0') },
      { text: 'Now 2 % of the packets are lost at random. Each loss halves a window, or nearly so. Six connections have six windows, and only one of them shrinks. HTTP/2 has one window, as one connection has.', flags: files('2%') },
      { text: 'Add BBR, which does not take a lost packet for congestion: open the settings of http2, and set cc to bbr.' },
    ],
  },
  {
    title: 'Handshakes', question: 'What do round trips cost before the first byte?',
    steps: [
      { text: 'A small page over a long way. TCP and TLS 1.3 need two round trips before the first request, QUIC one.', flags: one('article', '20mbit', '300ms', '0', 'http1', 'http2', 'http3', 'http3:resume=0rtt') },
      { text: 'With 0-RTT the request goes with the first packet of a repeated visit. Look at “connect” and “secure” in the waterfalls.', look: true },
      { text: 'Over a short way there is little to gain.', flags: one('article', '20mbit', '20ms', '0', 'http1', 'http2', 'http3', 'http3:resume=0rtt') },
    ],
  },
  {
    title: 'BBR against CUBIC', question: 'Is a lost packet a sign of congestion?',
    steps: [
      { text: 'A download of 10 MB without random loss: both fill the link.', flags: bulk('0') },
      { text: 'Now 1 % of the packets are lost at random. CUBIC takes each loss for congestion and shrinks its window. BBR measures rate and round trip, and goes on.', flags: bulk('1%') },
      { text: 'Play the packets: the curve is the congestion window.', look: true },
    ],
  },
  {
    title: 'A path that fails', question: 'Who goes on when a network is gone?',
    steps: [
      { text: 'A download over one path that is down for 20 seconds, from second 2.', flags: failing(1) },
      { text: 'With a second path, SCTP sends what is lost there, and all of it when the first path counts as failed. TCP has one path only, and its timer doubles while the path is down.', flags: failing(2) },
      { text: 'The waiting time follows the retransmission timer. Open the settings of sctp, and set rto_min to another value.' },
    ],
  },
]

/** Where the answer of the step that races is shown. */
let place: HTMLElement | undefined

/** Shows the answer of the race below the step that began it. */
export function answered(text: string): void {
  if (place) place.textContent = text
}

/** Takes away the answer of a step, because another race begins. */
export function forget(): void {
  answered('')
  place = undefined
}

/** Makes the cards. `set` replaces all flags, and `look` shows packets and waterfalls. */
export function cards(set: (flags: Flag[]) => void, look: () => void): HTMLElement {
  const step = ({ text, flags, look: looks }: Step): HTMLElement => {
    const answer = h('output', { class: 'step-answer' })
    const race = flags && h('button', { type: 'button', class: 'race', click: () => {
      set(flags.map(([name, value]) => [name, value]))
      place = answer
      answer.textContent = 'The race runs …'
    } }, 'Race this')
    const show = looks && h('button', { type: 'button', class: 'look', click: look }, 'Look at packets and waterfalls')
    return h('li', {}, text, ' ', race, race && show ? ' ' : null, show, flags ? answer : null)
  }
  return h('div', { class: 'guides' }, ...GUIDES.map((guide) => h('details', { class: 'guide' },
    h('summary', {}, h('b', {}, guide.title), h('span', {}, guide.question)), h('ol', {}, ...guide.steps.map(step)))))
}
