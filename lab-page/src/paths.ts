// Two paths with their own rate, round trip and loss, and the failure of one: the flags `path` and `fail`.

import type { Choice } from './model'

/** The settings of a path that the form has. */
export type PathKey = 'rate' | 'rtt' | 'loss'

const KEYS: PathKey[] = ['rate', 'rtt', 'loss']

/** A path: its settings as texts. Those that it does not name have the value of the flag of this name. */
export type Path = Partial<Record<PathKey, string>>

/** When a path fails, and for how long; without a length, for good. */
export interface Failure { path: number; at: string; for?: string }

/** The two paths of the form. */
export interface Paths { paths: [Path, Path]; failure: Failure | undefined }

const pairs = (text: string): [string, string][] => text.split(',').map((part) => {
  const [key, ...value] = part.trim().split('=')
  return [key!, value.join('=')]
})

/** Reads the paths of a choice; `undefined` if the form cannot show them. */
export function readPaths(choice: Choice): Paths | undefined {
  const [first, second, ...more] = choice.all('path').map(readPath)
  const fails = choice.all('fail')
  if (!first || !second || more.length > 0 || fails.length > 1 || choice.get('handover')) return undefined
  if (fails.length === 0) return { paths: [first, second], failure: undefined }
  const failure = readFailure(fails[0]!)
  return failure && { paths: [first, second], failure }
}

function readPath(text: string): Path | undefined {
  const path: Path = {}
  for (const [key, value] of pairs(text)) {
    if (!KEYS.includes(key as PathKey)) return undefined
    path[key as PathKey] = value
  }
  return path
}

function readFailure(text: string): Failure | undefined {
  const all = new Map(pairs(text))
  const [path, at, length] = [Number(all.get('path')), all.get('at'), all.get('for')]
  if (![...all.keys()].every((key) => ['path', 'at', 'for'].includes(key)) || !at || (path !== 1 && path !== 2)) return undefined
  return { path, at, ...(length ? { for: length } : {}) }
}

/** Sets the paths of a choice. */
export function writePaths(choice: Choice, { paths, failure }: Paths): void {
  choice.setAll('path', paths.map((path) => KEYS.filter((key) => path[key] !== undefined).map((key) => `${key}=${path[key]}`).join(',')))
  choice.setAll('fail', failure ? [`path=${failure.path},at=${failure.at}${failure.for ? `,for=${failure.for}` : ''}`] : [])
}

/** Turns a network of one path into one of two, of which the second has half as long a way more. */
export function split(choice: Choice, longer: (rtt: string) => string): void {
  const first: Path = { rate: choice.get('rate') ?? '10mbit', rtt: choice.get('rtt') ?? '80ms', loss: choice.get('loss') ?? '0' }
  for (const flag of ['rate', 'rtt', 'loss']) choice.set(flag, undefined)
  writePaths(choice, { paths: [first, { ...first, rtt: longer(first.rtt!) }], failure: undefined })
}

/** Keeps the first path alone. */
export function join(choice: Choice): void {
  const first = readPaths(choice)?.paths[0] ?? {}
  for (const flag of ['path', 'fail', 'network']) choice.setAll(flag, [])
  for (const key of KEYS) choice.set(key, first[key] ?? choice.get(key) ?? { rate: '10mbit', rtt: '80ms', loss: '1%' }[key])
}
