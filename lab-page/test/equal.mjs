// Checks that random plans give the same files in WebAssembly as on the command line, but for the field `host` and the
// last digit of fractions in results.json.
//
//   node lab-page/test/equal.mjs PROGRAM.wasm ANABRANCH [PLANS [SEED]]
//
// Prints the processor time of both for the runs. Results, report, page loads, captures and key logs are compared. A race
// with several points is a sweep on the command line, whose files have other names: of it, results.json is compared.

import { readFileSync } from 'node:fs'
import { compare, count, HAR, plan, seedPlans } from './plans.mjs'
import { ask, programs, race } from './program.mjs'

const [wasm, anabranch, wanted = '20', seed = '1'] = process.argv.slice(2)
const start = await programs(wasm)
seedPlans(Number(seed))
let seconds = 0
for (let i = 0; i < Number(wanted); i++) {
  const flags = plan()
  const pair = [start(), start()]
  for (const program of pair) program.put('own.har', readFileSync(HAR))
  let error, points = 1
  const before = process.cpuUsage()
  try {
    points = race(pair, flags).points.length
  } catch (caught) {
    error = caught.message
  }
  seconds += process.cpuUsage(before).user / 1e6
  const names = error === undefined ? ask(pair[0], { do: 'results', captures: points === 1 }) : []
  compare(anabranch, flags, { error, points, names, take: (name) => pair[0].take(name) })
}
if (count.refused * 4 > Number(wanted)) throw new Error(`${count.refused} of ${wanted} plans were refused`)
console.log(`equal: ${wanted} plans, ${count.files} files, ${count.refused} refused alike, ${count.rounded} fractions differ in the last digit; processor time ${seconds.toFixed(1)} s in WebAssembly, ${count.native.toFixed(1)} s native, which includes the captures`)
