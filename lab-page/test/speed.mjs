// Compares the processor time of runs in WebAssembly with that of the program: the default race on the page `news`.
//
//   node lab-page/test/speed.mjs PROGRAM.wasm ANABRANCH [LOADS]
//
// An engine compiles code of WebAssembly twice: quickly when it starts, and well where much time is spent. The compilation
// takes processor time as well. So the first ten loads of a contestant are measured, and then as many as wanted. Exits
// with 1 if one of these takes more than four times as long as native.

import { execFileSync } from 'node:child_process'
import { ask, programs } from './program.mjs'

/** The largest ratio to the native program, for loads after the first ten. */
const MOST = 4
const FIRST = 10

const [wasm, anabranch, loads = '40'] = process.argv.slice(2)
const start = await programs(wasm)
let slow = 0
for (const contestant of ['http1', 'http2', 'http3', 'sctp-dtls', 'six', 'sctp']) {
  const program = start()
  const flags = [['page', 'news'], ['loss', '1%'], ['causes', 'off'], ['runs', String(Number(loads) + FIRST)], ['transport', contestant]]
  const { jobs } = ask(program, { do: 'plan', flags, file: null })
  const measured = (from, to) => {
    const before = process.cpuUsage()
    for (let job = from; job < to; job++) program.answer(JSON.stringify({ do: 'run', job }))
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1e6 / (to - from)
  }
  const [first, ours] = [measured(0, FIRST), measured(FIRST, jobs.length)]
  const cpu = (runs) => Number(execFileSync('bash', ['-c', 'TIMEFORMAT="%U"; { time "$@" >/dev/null 2>&1; } 2>&1', 'bash', anabranch, 'race', '--page', 'news', '--loss', '1%', '--causes', 'off', '--threads', '1', '--quiet', '--transport', contestant, '--runs', String(runs)], { encoding: 'utf8' }).trim())
  // The difference of two lengths leaves out what a process does once.
  const native = (cpu(4 * Number(loads)) - cpu(Number(loads))) / (3 * Number(loads))
  if (ours / native > MOST) slow++
  const ms = (seconds) => (seconds * 1000).toFixed(0).padStart(4)
  console.log(`${contestant.padEnd(10)} ${ms(ours)} ms a load in WebAssembly, ${ms(native)} ms native: ${(ours / native).toFixed(1)} times; the first ${FIRST} loads ${ms(first)} ms each: ${(first / native).toFixed(1)} times`)
}
process.exitCode = slow > 0 ? 1 : 0
