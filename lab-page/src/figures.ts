// A figure of each of the five papers: the plan that makes it, its published points, and assumptions to change. Plans and
// published values are those of `studies/`, which the build puts into the page.

import { at } from './dom'
import type { Facts } from './tables'

/** A study as the build writes it: the text of a plan, and the rows of its published tables by name. */
interface Study { title: string; source: string; question: string; plan: string; published: Record<string, Row[]> }

type Row = Record<string, string>

const studies: Record<string, Study> = JSON.parse(at('studies-data').textContent ?? '{}')

/** An assumption that can be changed: its values, each with its text. */
export interface Control { key: string; label: string; usual: string; values: [value: string, text: string][] }

/** The chosen values of the controls. */
export type Chosen = Record<string, string>

/** What a figure reads of a run. Numbers of objects are columns. */
export interface FigureRun {
  page_ns: number | null
  wire_bytes: { up: number; down: number }
  objects: { bytes: number[]; issued_ns: (number | null)[]; delivered_ns: (number | null)[] }
}

/** A published value at the position `x`. */
export interface Published { contestant: string; x: number; value: number }

/** A figure: values over positions, for each contestant. */
export interface Figure {
  study: string
  title: string
  /** What the figure shows when an assumption is changed. */
  hint: string
  unit: string
  /** Whether the values span powers of ten. */
  log: boolean
  /** The number of seeds. */
  runs: number
  controls: Control[]
  /** The names of the positions. */
  positions: string[]
  plan(text: string, chosen: Chosen): string
  /** Returns the values of a run at a point, each with its position. */
  values(run: FigureRun, factors: Facts['points'][number]['factors']): [x: number, value: number][]
  /** Whether runs at a point have a value. */
  needs(factors: Facts['points'][number]['factors']): boolean
  published(tables: Record<string, Row[]>, chosen: Chosen): Published[]
}

/** The study of a figure. */
export const studyOf = (figure: { study: string }): Study => studies[figure.study]!

/** Replaces the value of a key in the text of a plan. */
function set(plan: string, key: string, value: string): string {
  const line = new RegExp(`^${key} = (\\[\\n[^\\]]*\\]|.*)$`, 'm')
  if (!line.test(plan)) throw new Error(`the plan of the study has no ${key}`)
  return plan.replace(line, () => `${key} = ${value}`)
}

const toml = (values: string[]): string => `[${values.map((value) => `"${value}"`).join(', ')}]`

/** Replaces a text that a plan has. */
function change(plan: string, from: string, to: string): string {
  if (!plan.includes(from)) throw new Error(`the plan of the study has no ${from}`)
  return plan.replaceAll(from, to)
}

const SIZES = ['100B', '1KiB', '10KiB', '100KiB']
/** The heads of a request and a response, which the rate of Österdahl's client includes. */
const HEADS = 309

const osterdahl: Figure = {
  study: 'osterdahl-2005', title: 'Throughput by the size of the objects', unit: 'KiB/s', log: true, runs: 10,
  hint: 'Drop fewer packets: the order of the three changes. The published points with drops are for every tenth packet.',
  positions: SIZES.map((size) => size.replace(/(\d)([A-Z])/, '$1\u00a0$2')),
  controls: [
    { key: 'loss', label: 'A packet is dropped', usual: 'nth:10/shared', values: [['nth:5/shared', 'every 5th'], ['nth:10/shared', 'every 10th'], ['nth:20/shared', 'every 20th'], ['nth:50/shared', 'every 50th'], ['0', 'never']] },
    { key: 'arrivals', label: 'Starts each second', usual: '25/s', values: [['5/s', '5'], ['25/s', '25'], ['100/s', '100']] },
  ],
  plan: (text, chosen) => ['loss', 'arrivals'].reduce((plan, key) => set(plan, key, `"${chosen[key]}"`),
    set(text, 'objects', toml(SIZES.map((size) => `50x${size}`))).replace(/^.*"sctp-50=.*\n/m, '')),
  values(run, factors) {
    const ends = run.objects.delivered_ns.filter((end) => end !== null)
    const last = Math.max(0, ...ends) / 1e9
    const bytes = run.objects.bytes.reduce((sum, size, i) => (run.objects.delivered_ns[i] === null ? sum : sum + size + HEADS), 0)
    return [[SIZES.indexOf(factors['objects']!.replace('50x', '')), last > 0 ? bytes / 1024 / last : 0]]
  },
  needs: () => true,
  published: (tables, { loss }) => (tables[loss === '0' ? 'no-drops' : 'every-tenth'] ?? [])
    .map((row) => ({ contestant: row['contestant']!, x: SIZES.indexOf(row['objects']!.replace('50x', '')), value: Number(row['kib_per_second']) })),
}

const MESSAGES = ['2048B', '8192B']

const ha: Figure = {
  study: 'ha-2005', title: 'Throughput by the size of a send()', unit: 'kB/s', log: false, runs: 1,
  hint: 'The cost of a packet was chosen so that the published values of 2048 bytes are met. Those of 8192 bytes are not.',
  positions: ['2048\u00a0B', '8192\u00a0B'],
  controls: [
    { key: 'packet-time', label: 'Cost of each packet', usual: '92us', values: [['0us', 'none'], ['46us', '46 µs'], ['92us', '92 µs'], ['184us', '184 µs']] },
    { key: 'half-duplex', label: 'The wire', usual: 'true', values: [['true', 'shared by both directions'], ['false', 'one for each direction']] },
  ],
  plan: (text, chosen) => set(set(text, 'packet-time', `"${chosen['packet-time']}"`), 'half-duplex', chosen['half-duplex']!),
  values: (run, factors) => (run.page_ns === null ? [] : [[MESSAGES.indexOf(factors['message-size']!), (run.wire_bytes.up + run.wire_bytes.down) / (run.page_ns / 1e9) / 1000]]),
  needs: () => true,
  published: (tables) => (tables['input-size'] ?? []).map((row) => ({ contestant: row['contestant']!, x: MESSAGES.indexOf(row['message-size']!), value: Number(row['bytes_per_s']) / 1000 })),
}

const sasikala: Figure = {
  study: 'sasikala-2008', title: 'Response time of a client that moves', unit: 's', log: false, runs: 20,
  hint: 'How fast the client learns of the new network is not in the paper. It moves the times more than the transport does.',
  positions: ['all speeds, overlap 10 m', '10 m/s, all overlaps'],
  controls: [
    { key: 'detection', label: 'The client learns of a network after', usual: '500ms', values: [['0ms', '0 ms'], ['100ms', '100 ms'], ['500ms', '500 ms'], ['1s', '1 s'], ['2s', '2 s']] },
    { key: 'objects', label: 'Objects of the page', usual: '5', values: [['1', '1'], ['3', '3'], ['5', '5'], ['10', '10'], ['20', '20']] },
  ],
  plan: (text, chosen) => set(set(text, 'detection', `"${chosen['detection']}"`), 'objects', `"${chosen['objects']}x13500B"`),
  values(run, factors) {
    const { issued_ns, delivered_ns } = run.objects
    if (delivered_ns.some((end) => end === null)) return []
    const mean = delivered_ns.reduce<number>((sum, end, i) => sum + (end! - issued_ns[i]!), 0) / delivered_ns.length / 1e9
    return [...(factors['overlap'] === '10m' ? [[0, mean] as [number, number]] : []), ...(factors['speed'] === '10m/s' ? [[1, mean] as [number, number]] : [])]
  },
  needs: (factors) => factors['overlap'] === '10m' || factors['speed'] === '10m/s',
  published: (tables) => (tables['table-2'] ?? []).map((row) => ({ contestant: row['contestant']!, x: row['speed'] === 'mean' ? 0 : 1, value: Number(row['seconds']) })),
}

const rajamani: Figure = {
  study: 'rajamani-2002', title: 'When each of eight files is complete', unit: 's', log: false, runs: 20,
  hint: 'With loss, SCTP is ahead on each file, as published. The buffers were chosen, because the slides do not print them.',
  positions: ['1', '2', '3', '4', '5', '6', '7', '8'].map((file) => `file ${file}`),
  controls: [
    { key: 'loss', label: 'Lost packets', usual: '1%', values: [['0', 'none'], ['1%', '1 %'], ['2%', '2 %']] },
    { key: 'buffers', label: 'Buffers', usual: '128KiB', values: [['32KiB', '32 KiB'], ['64KiB', '64 KiB'], ['128KiB', '128 KiB']] },
  ],
  plan: (text, chosen) => change(set(text, 'loss', `"${chosen['loss']}"`), 'buf=128KiB', `buf=${chosen['buffers']}`),
  // The first object is file 0, after which the client asks for the others.
  values: (run) => run.objects.delivered_ns.slice(1).map((end, i): [number, number | null] => [i, end === null ? null : (end - run.objects.issued_ns[i + 1]!) / 1e9])
    .filter((pair): pair is [number, number] => pair[1] !== null),
  needs: () => true,
  published: (tables, { loss }) => (tables['slide-24'] ?? []).filter((row) => row['loss'] === loss)
    .map((row) => ({ contestant: row['contestant']!, x: Number(row['object']) - 2, value: Number(row['seconds']) })),
}

/** The figures of values over positions. */
export const FIGURES: Figure[] = [rajamani, osterdahl, ha, sasikala]

/** The packets of one transfer, as a table of a paper has them and as they are here. */
export interface Trace {
  study: string
  title: string
  hint: string
  controls: Control[]
  /** The end of the time axis, in seconds. */
  end: number
  plan(text: string, chosen: Chosen): string
  published(tables: Record<string, Row[]>): { at: number; fromClient: boolean; again: boolean; type: string }[]
}

export const TRACE: Trace = {
  study: 'alternative-transport', title: 'The packets of a small file on a slow link', end: 12,
  hint: 'A packet of 1500 bytes takes 0.83 s at 14.4 kbit/s. The timer of 1 s ends before its SACK can arrive, so packets that were never lost are sent again.',
  controls: [
    { key: 'rto_min', label: 'Shortest timer', usual: '1s', values: [['1s', '1 s'], ['2s', '2 s'], ['5s', '5 s']] },
    { key: 'rate', label: 'Rate', usual: '14400bit', values: [['14400bit', '14.4 kbit/s'], ['32kbit', '32 kbit/s'], ['64kbit', '64 kbit/s']] },
  ],
  plan: (text, chosen) => change(set(text, 'rate', `"${chosen['rate']}"`), 'cookie_data=no', `cookie_data=no${chosen['rto_min'] === '1s' ? '' : `,rto_min=${chosen['rto_min']}`}`)
    .replace(/^deadline = .*$/m, 'deadline = "60s"'),
  published: (tables) => (tables['packets'] ?? []).map((row) => ({ at: Number(row['printed_s']), fromClient: row['from'] === 'client', again: row['sent again from row'] !== '', type: row['type']! })),
}
