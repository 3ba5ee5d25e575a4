// The WebAssembly program in node, with the code of the page's workers.

import { build } from 'esbuild'
import { readFile } from 'node:fs/promises'

const { outputFiles } = await build({
  entryPoints: [new URL('../src/host.ts', import.meta.url).pathname], bundle: true, write: false, format: 'esm', target: 'es2022', logLevel: 'warning',
})
const { Program } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`)

/** Returns a function that starts programs. */
export async function programs(wasm) {
  const module = await WebAssembly.compile(await readFile(wasm))
  return () => new Program(module)
}

/** Asks a program, and returns the content of its answer. */
export function ask(program, request) {
  const { ok, error } = JSON.parse(program.answer(typeof request === 'string' ? request : JSON.stringify(request)))
  if (error !== undefined) throw new Error(error)
  return ok
}

/** Runs a whole race as the page does, with two programs that share the runs and the experiments. */
export function race([judge, other], flags) {
  const facts = ask(judge, { do: 'plan', flags, file: null })
  ask(other, { do: 'plan', flags, file: null })
  facts.jobs.forEach((_, job) => {
    const answer = (job % 2 === 0 ? judge : other).answer(JSON.stringify({ do: 'run', job }))
    ask(judge, `{"do":"add","job":${job},"answer":${answer}}`)
  })
  const seeds = facts.seeds.length
  if (facts.explains) {
    facts.points.forEach((_, point) => {
      const held = judge.answer(JSON.stringify({ do: 'export', point, seeds }))
      const gaps = other.answer(`{"do":"explain","point":${point},"seeds":${seeds},"part":"gaps","from":${held}}`)
      const changes = judge.answer(JSON.stringify({ do: 'explain', point, seeds, part: 'changes' }))
      for (const answer of [gaps, changes]) ask(judge, `{"do":"explained","point":${point},"seeds":${seeds},"answer":${answer}}`)
    })
  }
  return facts
}
