// Random plans, the files that the command line makes of them, and the comparison of files.

import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The HAR that plans name `own.har`. */
export const HAR = new URL('../../crates/http/pages/article.har', import.meta.url).pathname

/** What was compared: files, plans that both refuse, fractions that differ in their last digit, and seconds of the command line. */
export const count = { files: 0, refused: 0, rounded: 0, native: 0 }

// A small generator, so that the plans of a seed are the same everywhere (mulberry32).
let state = 1
export const seedPlans = (seed) => { state = seed }
const random = () => {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}
const pick = (list) => list[Math.floor(random() * list.length)]

const CONTESTANTS = ['http1', 'http2', 'http3', 'sctp-dtls', 'tcp', 'sctp', 'six', 'http3:cc=bbr', 'http2:cc=reno', 'http1:connections=2', 'sctp:iw=10', 'http3:resume=0rtt', 'tcp:cc=bbr', 'sctp-dtls:dtls=1.2', 'tcp:profile=linux-2.6']

/** Returns the flags of a random plan. */
export function plan() {
  const flags = pick([
    [['page', 'article']], [['page', 'own.har']], [['page', 'article'], ['visit', 'repeat']], [['objects', '6x20kB']], [['objects', '1kB,40kB,5kB']], [['bulk', '300kB']],
    [['messages', '50/s'], ['size', '300B'], ['for', '2s']],
  ])
  const given = [...flags]
  given.push(['rate', pick(['1mbit', '5mbit', '20mbit', '100mbit'])], ['rtt', pick(['10ms', '40ms', '120ms', '400ms'])], ['loss', pick(['0', '1%', '3%', 'ge:1%/30%', '0,2%'])])
  if (random() < 0.3) given.push(['jitter', '5ms'])
  if (random() < 0.3) given.push(['queue', pick(['0.5bdp', '3bdp', '20p'])])
  if (random() < 0.2) given.push(['up-rate', '500kbit'])
  if (random() < 0.2) given.push(['seed', '17'])
  given.push(['runs', String(1 + Math.floor(random() * 6))])
  const messages = given[0][0] === 'messages'
  const from = messages ? ['tcp', 'sctp', 'six', 'sctp-dtls', 'tcp-tls'] : given[0][0] === 'bulk' || given[0][0] === 'objects' ? CONTESTANTS.filter((it) => !/resume/.test(it)) : CONTESTANTS
  const chosen = new Set()
  while (chosen.size < 2 + Math.floor(random() * 2)) chosen.add(pick(from.filter((it) => !(given.some(([name]) => name === 'visit') && /resume/.test(it)))))
  for (const text of chosen) given.push(['transport', text])
  return given
}

/**
 * Whether two results are equal. Exponentials and logarithms are rounded in another way in WebAssembly, so a fraction may
 * differ in its last digit.
 */
export function alike(a, b) {
  if (typeof a === 'number' && typeof b === 'number' && !(Number.isInteger(a) && Number.isInteger(b))) {
    if (a !== b) count.rounded++
    return Math.abs(a - b) <= 1e-12 * Math.abs(a)
  }
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return a === b
  const keys = Object.keys(a)
  return keys.join() === Object.keys(b).join() && keys.every((key) => alike(a[key], b[key]))
}

/** Runs a plan on the command line, and compares it with `ours`: an error, or the number of points and the files. */
export function compare(anabranch, flags, { error, points, names, take }) {
  const words = flags.flatMap(([name, value]) => [`--${name}`, value])
  const directory = mkdtempSync(join(tmpdir(), 'anabranch-lab-'))
  const fail = (line) => { throw new Error(`${line}\n  anabranch race ${words.join(' ')}\n  the files of the command line are in ${directory}`) }
  copyFileSync(HAR, join(directory, 'own.har'))
  mkdirSync(join(directory, 'out'))
  let native
  try {
    const times = execFileSync('bash', ['-c', 'TIMEFORMAT=%U; { time "$@" >/dev/null 2>err; } 2>&1 || true; cat err >&2', 'bash', anabranch, 'race', ...words, '--quiet', '--threads', '1', ...(points > 1 ? ['--json', 'out/results.json'] : ['--out', 'out'])], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    count.native += Number(times.trim().split('\n').at(-1))
    readFileSync(join(directory, 'out/results.json'))
  } catch {
    native = readFileSync(join(directory, 'err'), 'utf8').trim().replace(/^anabranch: /, '')
  }
  if (error !== undefined || native !== undefined) {
    if (error !== native) fail(`WebAssembly: ${error ?? 'done'}\n  command line: ${native ?? 'done'}`)
    count.refused++
  } else {
    const read = (content) => { const race = JSON.parse(content.toString()); delete race.host; return race }
    for (const name of names.filter((name) => points === 1 ? !['table.txt', 'objects.csv'].includes(name) : name === 'results.json')) {
      const ours = Buffer.from(take(name)), theirs = readFileSync(join(directory, 'out', name))
      const same = name === 'results.json' ? alike(read(ours), read(theirs)) : ours.equals(theirs)
      if (!same) fail(`${name} differs`)
      count.files++
    }
    const missing = readdirSync(join(directory, 'out')).filter((name) => !names.includes(name))
    if (missing.length > 0) fail(`the command line has other files: ${missing.join(', ')}`)
  }
  rmSync(directory, { recursive: true })
}
