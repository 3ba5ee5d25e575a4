// Compares the processor time of runs in WebAssembly with that of the program: the default race on the page `news`.
//
//   node lab-page/test/speed.mjs PROGRAM.wasm ANABRANCH [LOADS]

import { execFileSync } from 'node:child_process'
import { ask, programs } from './program.mjs'

const [wasm, anabranch, loads = '5'] = process.argv.slice(2)
const program = (await programs(wasm))()
for (const contestant of ['http1', 'http2', 'http3', 'sctp-dtls', 'six', 'sctp']) {
  const flags = [['page', 'news'], ['loss', '1%'], ['causes', 'off'], ['runs', String(Number(loads) + 1)], ['transport', contestant]]
  const { jobs } = ask(program, { do: 'plan', flags, file: null })
  // The first run also compiles the code that the others use.
  program.answer(JSON.stringify({ do: 'run', job: 0 }))
  const before = process.cpuUsage()
  for (let job = 1; job < jobs.length; job++) program.answer(JSON.stringify({ do: 'run', job }))
  const used = process.cpuUsage(before)
  const ours = (used.user + used.system) / 1e6 / Number(loads)
  const cpu = (runs) => Number(execFileSync('bash', ['-c', 'TIMEFORMAT="%U"; { time "$@" >/dev/null 2>&1; } 2>&1', 'bash', anabranch, 'race', '--page', 'news', '--loss', '1%', '--causes', 'off', '--threads', '1', '--quiet', '--transport', contestant, '--runs', String(runs)], { encoding: 'utf8' }).trim())
  // The difference of two lengths leaves out what a process does once.
  const native = (cpu(4 * Number(loads)) - cpu(Number(loads))) / (3 * Number(loads))
  console.log(`${contestant.padEnd(10)} ${(ours * 1000).toFixed(0).padStart(5)} ms a load in WebAssembly, ${(native * 1000).toFixed(0).padStart(4)} ms native: ${(ours / native).toFixed(1)} times`)
}
