// What the user has chosen: flags of the command line, which are also the fragment of the address.

/** A flag without its dashes, and its value. */
export type Flag = [name: string, value: string]

/** What browsers offer for pages. A race without contestants also has SCTP, which a user adds with one click. */
export const BROWSERS = ['http1', 'http2', 'http3']

/** The flags that the page shows if the address has none. */
export const DEFAULTS: Flag[] = [
  ['page', 'news'], ['rate', '10mbit'], ['rtt', '80ms'], ['loss', '1%'], ['runs', '30'], ...BROWSERS.map((name): Flag => ['transport', name]),
]

/** The flags in the order in which the command shows them. */
export class Choice {
  constructor(public flags: Flag[]) {}

  static of(fragment: string): Choice {
    const flags = [...new URLSearchParams(fragment.replace(/^#/, ''))].filter(([name]) => name !== '')
    return new Choice(flags.length > 0 ? flags : DEFAULTS.map(([name, value]) => [name, value]))
  }

  fragment(): string {
    const text = this.flags.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')
    return '#' + text.replace(/%3A/g, ':').replace(/%2C/g, ',').replace(/%3D/g, '=').replace(/%2F/g, '/')
  }

  get(name: string): string | undefined {
    return this.flags.find(([known]) => known === name)?.[1]
  }

  all(name: string): string[] {
    return this.flags.filter(([known]) => known === name).map(([, value]) => value)
  }

  /** Sets a flag that has one value; without a value, removes it. */
  set(name: string, value: string | undefined): void {
    const index = this.flags.findIndex(([known]) => known === name)
    if (value === undefined || value === '') this.flags = this.flags.filter(([known]) => known !== name)
    else if (index < 0) this.flags.push([name, value])
    else this.flags[index] = [name, value]
  }

  /** Sets a flag that may be given several times. */
  setAll(name: string, values: string[]): void {
    this.flags = this.flags.filter(([known]) => known !== name)
    this.flags.push(...values.map((value): Flag => [name, value]))
  }
}

/** Flags of the network whose values may be several, with a point of the race for each combination. */
const FACTORS = ['rate', 'up-rate', 'down-rate', 'rtt', 'loss', 'up-loss', 'down-loss', 'jitter', 'queue']

/** The number of networks that a race compares, as far as the usual flags say. */
export function networks(choice: Choice): number {
  return FACTORS.reduce((all, flag) => all * (choice.get(flag)?.split(',').length ?? 1), 1)
}

/** The size of a unit of rates, in bit/s. */
const RATES: [string, number][] = [['gbit', 1e9], ['mbit', 1e6], ['kbit', 1e3], ['bit', 1]]

/** Reads a value with a unit, such as `10mbit` or `1.5s`; `undefined` if it has another form. */
function read(text: string | undefined, units: [string, number][]): number | undefined {
  const found = /^([\d.]+)([a-z%]*)$/i.exec(text ?? '')
  const size = units.find(([unit]) => unit === found?.[2]?.toLowerCase())?.[1]
  return found && size !== undefined ? Number(found[1]) * size : undefined
}

const round = (value: number): string => String(Number(value.toPrecision(4)))

/** A quantity of the network with the texts of its values. */
export interface Form {
  read(text: string | undefined): number | undefined
  write(value: number): string
}

export const rate: Form = {
  read: (text) => read(text, RATES),
  write(value) {
    const [unit, size] = RATES.find(([, size]) => value >= size) ?? ['bit', 1]
    return round(value / size) + unit
  },
}

export const duration: Form = {
  read: (text) => read(text, [['ms', 1], ['s', 1000], ['us', 0.001]]),
  write: (value) => (value >= 1000 ? `${round(value / 1000)}s` : `${round(value)}ms`),
}

export const bdp: Form = {
  read: (text) => read(text, [['bdp', 1]]),
  write: (value) => `${round(value)}bdp`,
}

/** Loss: the share of lost packets, and the mean number of packets that are lost together. */
export interface Loss { share: number; burst: number }

export function readLoss(text: string | undefined): Loss | undefined {
  if (text === undefined || text === '0') return { share: 0, burst: 1 }
  const single = read(text, [['%', 0.01]])
  if (single !== undefined) return { share: single, burst: 1 }
  const found = /^ge:([\d.]+)%\/([\d.]+)%$/.exec(text)
  if (!found) return undefined
  const [enter, leave] = [Number(found[1]) / 100, Number(found[2]) / 100]
  return leave > 0 ? { share: enter / (enter + leave), burst: 1 / leave } : undefined
}

export function writeLoss({ share, burst }: Loss): string {
  if (share <= 0) return '0'
  if (burst <= 1) return `${round(share * 100)}%`
  const leave = 1 / burst
  const enter = (share * leave) / (1 - share)
  return `ge:${round(enter * 100)}%/${round(leave * 100)}%`
}

/** A value with its unit, as a form shows it. */
export const spaced = (text: string): string => text.replace(/^([\d.]+)([a-z]+)$/, '$1\u00a0$2').replace('mbit', 'Mbit').replace('gbit', 'Gbit').replace('bit', 'bit/s')

/** The share of lost packets as text. */
export const percent = (share: number): string => `${Number((share * 100).toPrecision(3))}\u00a0%`

/** Writes a text of the program for people who see a form and no flags. */
export function plain(text: string): string {
  const loss = (form: string): string => {
    const read = readLoss(form.replace('/100%/0%', ''))
    return read ? `${percent(read.share)} in bursts of ${round(Number(read.burst.toPrecision(2)))}` : form
  }
  return text.replace(/, such as --runs (\d+)/, ', such as $1').replace(/, such as --loss.*?(?=\.$)/, ' with another loss or round trip')
    .replace(/up-rate ([\d.]+[a-z]+),down-rate=([\d.]+[a-z]+)/g, (_, up: string, down: string) => `${spaced(down)} down and ${spaced(up)} up`)
    .replace(/ge:[\d.]+%\/[\d.]+%(\/100%\/0%)?/g, loss).replace(/(^|[\s(])--(?=[a-z])/g, '$1')
}

/** Quotes an argument for a shell, as the program does. */
export function quoted(text: string): string {
  return /^[A-Za-z0-9\-_=.,:/%@+]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
